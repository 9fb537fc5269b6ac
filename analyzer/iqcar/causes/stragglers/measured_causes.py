"""Finds causes by measured waits: a resource delays a task only if the task waited for it.

The paper names three reasons why it finds only 60.6 % of injected contention (§IV-B4): contention
that delayed nobody, peers that are equally loaded, and contention during a part of the straggler
only. A straggler's own wait answers all three: what it waited beyond what its stage would wait for
as much work is set against its time over the median.
"""

from __future__ import annotations

import numpy as np

from iqcar.causes.stragglers.cause_evidence import Marks
from iqcar.causes.stragglers.feature_list import CPU, DISK, MEMORY, NETWORK
from iqcar.causes.stragglers.features import TaskFeatures
from iqcar.causes.stragglers.peers import ComparedTasks, quantile_by
from iqcar.causes.stragglers.straggler_settings import StragglerSettings
from iqcar.enums import CauseEvidence, FeatureKind
from iqcar.tables.arrays import Flags, Floats, Ints, sum_known

WORK = {
    CPU: (("cpu_ms", "python_cpu_ms"),),
    DISK: (
        ("input_bytes", "output_bytes", "shuffle_write_bytes", "disk_spilled_bytes", "local_bytes"),
        ("input_records",),
    ),
    NETWORK: (("remote_bytes",),),
    MEMORY: (("peak_memory_bytes",),),
}
"""What a task asks of each resource: who asks for twice as much may wait twice as long for it
without being in anybody's way. Of several sums the one counts that is most above its stage's: Spark
misses bytes that other threads read for a task, as Parquet's vectored reads do, but no records."""

LEAST_WORK = 1e-6
"""The least that can be counted: a nanosecond in ms. Less, of whatever, is damage in a log, and
nothing to compare with."""


def wait_features(features: TaskFeatures) -> dict[str, list[int]]:
    """Positions of the features that are measured waits, by cause."""
    found: dict[str, list[int]] = {}
    for position, feature in enumerate(features.features):
        if feature.kind is FeatureKind.WAIT and feature.cause:
            found.setdefault(feature.cause, []).append(position)
    return found


def _total(features: TaskFeatures, names: list[str], rows: Ints) -> Floats:
    """Sum of columns, NaN where none is known."""
    columns = [features.column(name)[rows] for name in names if name in features.frame]
    return sum_known(*columns) if columns else np.full(len(rows), np.nan)


def _trusted(
    features: TaskFeatures, compared: ComparedTasks, settings: StragglerSettings, tasks: Ints
) -> Flags:
    """Tell where measured waits alone decide: everywhere if asked for, else where recorded."""
    if settings.evidence is CauseEvidence.MEASURED:
        return np.ones(len(tasks), bool)
    recorded: Flags = features.frame["measured"].to_numpy(bool)[compared.rows[tasks]]
    return recorded


def waits_known(
    features: TaskFeatures, compared: ComparedTasks, settings: StragglerSettings, suspects: Ints
) -> dict[str, Flags]:
    """Tell for each cause which suspects' measured waits decide, instead of their hosts."""
    trusted = _trusted(features, compared, settings, suspects)
    decided = {}
    for cause, positions in wait_features(features).items():
        names = [features.features[p].name for p in positions]
        known = np.isfinite(_total(features, names, compared.rows[suspects]))
        decided[cause] = trusted & (known | (settings.evidence is CauseEvidence.MEASURED))
    return decided


def measured_causes(
    features: TaskFeatures, compared: ComparedTasks, settings: StragglerSettings
) -> Marks:
    """Find the stragglers whose measured wait explains enough of their time over the median.

    ``value`` is the wait in ms, ``peer_mean`` the wait that the stage's median task would have had
    with as much work, ``explained`` the share that the rest is of the delay; the feature is the
    longest of the cause's waits.
    """
    suspects = np.flatnonzero(compared.straggler)
    suspects = suspects[_trusted(features, compared, settings, suspects)]
    parts = []
    for cause, positions in wait_features(features).items():
        names = [features.features[p].name for p in positions]
        wait = _total(features, names, compared.rows)
        expected = _median(compared, wait) * _more_work(features, compared, cause)
        over = np.maximum(wait[suspects] - expected[suspects], 0.0)
        delay = compared.duration[suspects] - compared.median[suspects]
        # A record that is longer than its task (clocks, damage) explains no more than all.
        explained = np.minimum(over / delay, 1.0)
        kept = explained >= settings.explains
        delayed = suspects[kept]
        each = np.stack([features.column(name)[compared.rows[delayed]] for name in names])
        longest = np.argmax(np.nan_to_num(each), axis=0)
        for number, position in enumerate(positions):
            is_longest = longest == number
            parts.append(
                Marks.make(
                    delayed[is_longest],
                    position,
                    wait[delayed][is_longest],
                    expected[delayed][is_longest],
                    explained=explained[kept][is_longest],
                )
            )
    return Marks.join(parts)


def _median(compared: ComparedTasks, values: Floats) -> Floats:
    """Median of each task's stage."""
    return quantile_by(compared.stage, values, compared.stages, 0.5)[compared.stage]


def _more_work(features: TaskFeatures, compared: ComparedTasks, cause: str) -> Floats:
    """How many times the stage's median work each task had, at least 1; 1 where unknown."""
    most = np.ones(len(compared.rows))
    for names in WORK.get(cause, ()):
        work = _total(features, list(names), compared.rows)
        median = _median(compared, work)
        times = np.divide(work, median, out=np.ones(len(work)), where=median >= LEAST_WORK)
        most = np.fmax(most, np.where(np.isfinite(times), times, 1.0))
    return most
