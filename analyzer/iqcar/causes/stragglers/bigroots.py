"""Finds which features of a straggler are root causes: BigRoots (Zhou et al., §III).

A feature is compared with the straggler's peers in its stage, on other hosts and on its own. Two
readings are settled here. The quantile of eq. 5 is taken over the stage, as §IV-B describes it.
Eq. 6 as printed contradicts its text and would drop what it means to keep: here a host's feature is
dropped where both edges are low, because then the task itself was the load.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from iqcar.causes.stragglers.cause_evidence import BOTH, ELSEWHERE, EXECUTORS, INTER, INTRA, Marks
from iqcar.causes.stragglers.feature_list import SLOW_HOST, Feature, after, before
from iqcar.causes.stragglers.features import TaskFeatures
from iqcar.causes.stragglers.measured_causes import measured_causes, waits_known
from iqcar.causes.stragglers.peers import ComparedTasks
from iqcar.causes.stragglers.straggler_settings import StragglerSettings
from iqcar.enums import CauseEvidence, FeatureKind
from iqcar.tables.arrays import Flags, Floats, Ints

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
