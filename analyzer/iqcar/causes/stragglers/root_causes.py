"""Finds stragglers among their peers, and which of their features are root causes (BigRoots).

A feature is compared with the straggler's peers in its stage, on other hosts and on its own. Two
readings are settled here. The quantile of eq. 5 is taken over the stage, as §IV-B describes it.
Eq. 6 as printed contradicts its text and would drop what it means to keep: here a host's feature is
dropped where both edges are low, because then the task itself was the load.

The paper names three reasons why it finds only 60.6 % of injected contention (§IV-B4): contention
that delayed nobody, peers that are equally loaded, and contention during a part of the straggler
only. A straggler's own wait answers all three: what it waited beyond what its stage would wait for
as much work is set against its time over the median.

Paper: BigRoots | §III | leaves it: quantile of the stage, floors, measured waits first |
  tests/causes/stragglers/test_bigroots.py
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from iqcar.causes.stragglers.features import (
    CPU,
    DISK,
    MEMORY,
    NETWORK,
    SLOW_HOST,
    Feature,
    TaskFeatures,
    after,
    before,
)
from iqcar.causes.stragglers.straggler_result import (
    BOTH,
    ELSEWHERE,
    EXECUTORS,
    INTER,
    INTRA,
    Marks,
    StragglerSettings,
)
from iqcar.enums import CauseEvidence, FeatureKind
from iqcar.tables.arrays import Flags, Floats, Ints, by_group_and_time, sum_by, sum_known

ROUNDING = 1e-12
"""What is left of a sum of peers that is below this share of the sum is rounding."""


class Means(NamedTuple):
    """Means over the peers of some tasks; NaN where too few peers are known."""

    inter: Floats
    """Over tasks of the stage elsewhere."""
    intra: Floats
    """Over the others at the same place."""


@dataclass(frozen=True)
class ComparedTasks:
    """The tasks that are compared with each other, by stage.

    rows: (n,) rows of the features' frame.
    stage: (n,) number of each task's stage, from 0.
    cell: (n,) number of each task's stage and host.
    on_executor: (n,) number of each task's stage and executor; of its host where that is unknown.
    stages: how many of them there are.
    duration: (n,) float64, ms.
    median: (n,) float64, ms; of the task's stage.
    straggler: (n,) bool.
    least_peers: peers that a mean needs.
    """

    rows: Ints
    stage: Ints
    cell: Ints
    on_executor: Ints
    stages: int
    duration: Floats
    median: Floats
    straggler: Flags
    least_peers: int

    @classmethod
    def from_features(cls, features: TaskFeatures, settings: StragglerSettings) -> ComparedTasks:
        """Group the tasks that succeeded, in stages of enough tasks, and find the stragglers.

        A straggler's duration is more than ``settings.straggler`` times the stage's median
        (BigRoots §II-A).
        """
        frame = features.frame
        stage = frame["stage"].to_numpy(np.int64)
        duration = features.column("duration_ms")
        usable = (stage >= 0) & frame["compared"].to_numpy(bool)
        usable &= np.isfinite(duration) & (duration >= 0)
        size = np.bincount(stage[usable], minlength=int(stage.max(initial=-1)) + 1)
        usable[usable] = size[stage[usable]] >= settings.least_tasks
        rows = np.flatnonzero(usable)
        kept, number = np.unique(stage[rows], return_inverse=True)
        host = frame["host"].to_numpy(np.int64)[rows]
        hosts = int(host.max(initial=-1)) + 2
        executor = host if "executor" not in frame else frame["executor"].to_numpy(np.int64)[rows]
        place = np.where(executor >= 0, hosts + executor, host + 1)
        _, cell = np.unique(number * hosts + host + 1, return_inverse=True)
        _, on_executor = np.unique(
            number * (int(place.max(initial=0)) + 1) + place, return_inverse=True
        )
        took = duration[rows]
        median = quantile_by(number, took, len(kept), 0.5)[number]
        straggler = took > settings.straggler * median
        return cls(
            rows=rows, stage=number, cell=cell, on_executor=on_executor, stages=len(kept),
            duration=took, median=median, straggler=straggler, least_peers=settings.least_peers,
        )  # fmt: skip

    def value(self, features: TaskFeatures, feature: Feature) -> Floats:
        """A feature of the compared tasks as rules compare it: times as shares of the duration.

        The paper divides amounts by the stage's mean (table II), which changes no comparison
        within a stage; amounts stay as they are. Anything that is no finite number of 0 or more
        is unknown.
        """
        raw = features.column(feature.name)[self.rows]
        known = np.where(np.isfinite(raw) & (raw >= 0), raw, np.nan)
        if feature.kind is not FeatureKind.TIME:
            return known
        share: Floats = np.divide(
            known, self.duration, out=np.full(len(known), np.nan), where=self.duration > 0
        )
        return share

    def peer_means(self, values: Floats, tasks: Ints, places: Ints | None = None) -> Means:
        """Means over tasks of the stage on other hosts, and over the others on the same host.

        values: (n,) NaN where unknown: such a task is nobody's peer.
        tasks: positions of the tasks whose peers are meant.
        places: (n,) number of each task's stage and place; by default of its stage and host.
        """
        place = self.cell if places is None else places
        size = int(place.max(initial=-1)) + 1
        known = np.isfinite(values)
        value = np.where(known, values, 0.0)
        stage_sum = sum_by(self.stage, value, self.stages)
        stage_n = np.bincount(self.stage[known], minlength=self.stages)
        cell_sum = sum_by(place, value, size)
        cell_n = np.bincount(place[known], minlength=size)
        stage, cell = self.stage[tasks], place[tasks]
        inter = stage_sum[stage] - cell_sum[cell]
        inter = np.where(inter > ROUNDING * stage_sum[stage], inter, 0.0)
        intra = cell_sum[cell] - value[tasks]
        intra = np.where(intra > ROUNDING * cell_sum[cell], intra, 0.0)
        return Means(
            self._mean(inter, stage_n[stage] - cell_n[cell]),
            self._mean(intra, cell_n[cell] - known[tasks]),
        )

    def _mean(self, total: Floats, count: NDArray[Any]) -> Floats:
        enough = count >= self.least_peers
        mean: Floats = np.divide(total, count, out=np.full(len(total), np.nan), where=enough)
        return mean

    def quantiles(self, values: Floats, q: float, tasks: Ints) -> Floats:
        """Quantile of the stage of each of some tasks, looking only at the stages concerned."""
        wanted = np.zeros(self.stages, bool)
        wanted[self.stage[tasks]] = True
        among = wanted[self.stage]
        return quantile_by(self.stage[among], values[among], self.stages, q)[self.stage[tasks]]


def quantile_by(group: Ints, values: Floats, groups: int, q: float) -> Floats:
    """Quantile of the finite values of each group, between two values in proportion.

    Shape (groups,). NaN for a group without a finite value.
    """
    known = np.isfinite(values)
    if not known.any():
        return np.full(groups, np.nan)
    group, values = group[known], values[known]
    order = by_group_and_time(group, values)
    count = np.bincount(group, minlength=groups)
    first = np.cumsum(count) - count
    found = np.full(groups, np.nan)
    some = count > 0
    place = q * (count[some] - 1)
    low = np.floor(place).astype(np.int64)
    high = np.minimum(low + 1, count[some] - 1)
    ordered = values[order]
    below, above = ordered[first[some] + low], ordered[first[some] + high]
    found[some] = below + (above - below) * (place - low)
    return found


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


SLOWEST_MS = {"ms": 1.0, "bytes": 0.01, "count": 10.0}
"""Longest time one unit plausibly takes: 10 µs a byte (100 kB/s, slow parsing and remote storage),
10 ms a record (a call to a service for each)."""


def can_matter(
    feature: Feature, value: Floats, duration: Floats, greatest: float, floor: float
) -> Flags:
    """Tell where a feature is large enough to delay a task.

    For amounts: whether the slowest plausible handling takes more than the floor's share of the
    duration. For shares of a host's time: whether they are above the floor. For rates, whose limit
    nobody records: whether they are above the floor's share of the greatest.

    value: the feature as rules compare it.
    duration: ms; durations of the same tasks.
    greatest: the largest value of the feature among all tasks compared.
    floor: share of the duration that a time needs.
    """
    if feature.kind is FeatureKind.NUMERICAL and feature.unit in SLOWEST_MS:
        return value * SLOWEST_MS[feature.unit] > floor * duration
    if feature.kind is FeatureKind.RESOURCE:
        return value > floor * (1.0 if feature.unit == "share" else greatest)
    return np.ones(len(value), bool)


WORST = {"locality": 2.0}
"""Value of a discrete feature that can be a cause (eq. 4); 1 for all others."""
DATA, COMPUTING = ("input-skew", "shuffle-skew"), ("computation-skew", "python")
"""Causes that are more data, and those that may follow from it."""
SLOW_HOST_CODE = -1
"""In place of a feature's position, for :data:`SLOW_HOST`."""


def find_marks(
    features: TaskFeatures, compared: ComparedTasks, settings: StragglerSettings
) -> Marks:
    """Find the root causes of every straggler.

    One per straggler and feature; features that are no cause by themselves have none.
    """
    suspects = np.flatnonzero(compared.straggler)
    parts = []
    decided: dict[str, Flags] = {}
    if settings.evidence is not CauseEvidence.PAPER:
        parts.append(measured_causes(features, compared, settings))
        decided = waits_known(features, compared, settings, suspects)
    for position, feature in enumerate(features.features):
        if not feature.cause or feature.kind is FeatureKind.WAIT:
            continue
        candidates = suspects
        if feature.instead in decided:
            candidates = suspects[~decided[feature.instead]]
        parts.append(
            feature_marks(
                features,
                compared,
                settings,
                feature=feature,
                position=position,
                suspects=candidates,
            )
        )
    marks = Marks.join(parts)
    if settings.worth:
        marks = marks.kept(~_follows_from_data(features, compared, marks, settings))
    if settings.slow_hosts:
        unexplained = np.setdiff1d(suspects, marks.task)
        marks = Marks.join([marks, _slow_hosts(compared, settings, unexplained)])
    return marks


def feature_marks(
    features: TaskFeatures,
    compared: ComparedTasks,
    settings: StragglerSettings,
    feature: Feature,
    position: int,
    suspects: Ints,
) -> Marks:
    """Find which of the suspects one feature is a cause of (eq. 5 to 7)."""
    values = compared.value(features, feature)
    suspects = suspects[np.isfinite(values[suspects])]
    if feature.kind is FeatureKind.DISCRETE:
        return _discrete(compared, feature, position, values, suspects)
    value, took = values[suspects], compared.duration[suspects]
    large = value > 0
    if feature.kind is FeatureKind.TIME:
        large &= value > settings.floor
    if settings.worth and len(suspects):
        greatest = float(np.nanmax(values))
        large &= can_matter(feature, value, took, greatest, settings.floor)
    if feature.kind is FeatureKind.RESOURCE and settings.edge > 0:
        large &= ~_its_own(
            features, compared, settings, feature=feature, suspects=suspects, value=value
        )
    suspects, value = suspects[large], value[large]
    means = compared.peer_means(values, suspects)
    over = [value > settings.ratio * mean for mean in means]
    shared, others = _shared(compared, settings, feature, values, suspects)
    stands_out = over[INTER] | over[INTRA] | shared
    suspects, value, shared = suspects[stands_out], value[stands_out], shared[stands_out]
    inter, intra = means.inter[stands_out], means.intra[stands_out]
    from_inter, from_intra = over[INTER][stands_out], over[INTRA][stands_out]
    peers = np.select(
        [from_inter & from_intra, from_intra, from_inter & np.isfinite(intra), from_inter],
        [BOTH, INTRA, ELSEWHERE, INTER],
        EXECUTORS,
    )
    # Of two means that it is far above, the nearer one claims less.
    mean = np.select(
        [peers == BOTH, peers == INTRA, peers == EXECUTORS],
        [np.maximum(inter, intra), intra, others[stands_out]],
        inter,
    )
    bound = compared.quantiles(values, settings.quantile, suspects)
    kept = (value > bound) | shared
    bound = np.where(value > bound, bound, np.nan)
    with np.errstate(divide="ignore", over="ignore"):
        ratio = value[kept] / mean[kept]
    return Marks.make(
        suspects[kept], position, value[kept], mean[kept],
        quantile=bound[kept], ratio=ratio, peers=peers[kept],
    )  # fmt: skip


def _shared(
    compared: ComparedTasks,
    settings: StragglerSettings,
    feature: Feature,
    values: Floats,
    suspects: Ints,
) -> tuple[Flags, Floats]:
    """Tell where a straggler stands out from tasks elsewhere as the others at its place do.

    What is returned:
    shared: (n_suspects,) by host; times, which are those of a JVM, also by executor.
    elsewhere: (n_suspects,) mean over the stage's tasks on other executors.
    """
    shared = np.zeros(len(suspects), bool)
    elsewhere = np.full(len(suspects), np.nan)
    if not settings.shared:
        return shared, elsewhere
    by_executor = feature.kind is FeatureKind.TIME
    for places in (compared.cell, *([compared.on_executor] if by_executor else [])):
        means = compared.peer_means(values, suspects, places)
        bound = settings.ratio * means.inter
        shared |= (values[suspects] > bound) & (means.intra > bound)
        elsewhere = means.inter
    return shared, elsewhere


def _follows_from_data(
    features: TaskFeatures, compared: ComparedTasks, marks: Marks, settings: StragglerSettings
) -> Flags:
    """Tell which marks of computing follow from more data: per amount it is not above its peers'.

    Who reads five times as much computes five times as long; the cause is the data alone.
    """
    cause = np.array([feature_of(features, p).cause for p in marks.feature.tolist()], dtype=object)
    is_data = np.isin(cause, DATA)
    more_data = np.zeros(len(compared.rows))
    np.maximum.at(more_data, marks.task[is_data], np.nan_to_num(marks.ratio[is_data], posinf=1e300))
    computes: Flags = np.isin(cause, COMPUTING)
    return computes & (marks.ratio <= settings.ratio * more_data[marks.task])


def _its_own(
    features: TaskFeatures,
    compared: ComparedTasks,
    settings: StragglerSettings,
    feature: Feature,
    suspects: Ints,
    value: Floats,
) -> Flags:
    """Edge detection: whether the host was idle before and after, so that the task was the load.

    Where neither edge is known nobody can tell, and nothing is claimed.
    """
    rows = compared.rows[suspects]
    known: Sequence[str] = features.frame.columns
    busy = np.zeros(len(suspects), bool)
    for edge in (before(feature), after(feature)):
        if edge in known:
            with np.errstate(invalid="ignore"):
                busy |= features.column(edge)[rows] > settings.edge * value
    return ~busy


def _discrete(
    compared: ComparedTasks, feature: Feature, position: int, values: Floats, suspects: Ints
) -> Marks:
    """Eq. 7: the straggler is in the worst state, normal tasks mostly are not."""
    normal = ~compared.straggler & np.isfinite(values)
    total = np.bincount(compared.stage[normal], values[normal], compared.stages)
    count = np.bincount(compared.stage[normal], minlength=compared.stages)
    worst = WORST.get(feature.name, 1.0)
    stage = compared.stage[suspects]
    kept = (values[suspects] == worst) & (total[stage] < count[stage] / 2)
    delayed = suspects[kept]
    mean = total[compared.stage[delayed]] / np.maximum(count[compared.stage[delayed]], 1)
    return Marks.make(delayed, position, values[delayed], mean)


def _slow_hosts(compared: ComparedTasks, settings: StragglerSettings, suspects: Ints) -> Marks:
    """Put down to its host what nothing explains, where the stage's other tasks there were slow."""
    means = compared.peer_means(compared.duration, suspects)
    slow = means.intra > settings.ratio * means.inter
    delayed, there, elsewhere = suspects[slow], means.intra[slow], means.inter[slow]
    with np.errstate(divide="ignore", over="ignore"):
        ratio = there / elsewhere
    peers = np.full(len(delayed), INTER)
    return Marks.make(delayed, SLOW_HOST_CODE, there, elsewhere, ratio=ratio, peers=peers)


def feature_of(features: TaskFeatures, position: int) -> Feature:
    """Return the feature of a mark."""
    return SLOW_HOST if position == SLOW_HOST_CODE else features.features[position]


def cause_names(features: TaskFeatures, marks: Marks) -> list[str]:
    """Name the cause of each mark; what is so on its whole host may be another cause."""
    known = {p: feature_of(features, p) for p in set(marks.feature.tolist())}
    return [
        known[p].elsewhere if peers == ELSEWHERE and known[p].elsewhere else known[p].cause
        for p, peers in zip(marks.feature.tolist(), marks.peers.tolist(), strict=True)
    ]
