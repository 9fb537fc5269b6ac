"""BigRoots written straight from the paper's equations, task by task, with exact fractions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import isnan

from iqcar.causes.stragglers.straggler_result import StragglerSettings
from iqcar.enums import CauseEvidence

EQUATIONS = StragglerSettings(
    least_tasks=2, least_peers=1, worth=False, shared=False, slow_hosts=False,
    evidence=CauseEvidence.PAPER,
)  # fmt: skip
"""Our method without what it adds to the equations, as it reads them."""


@dataclass
class NaiveTask:
    """One task: features by name, NaN where unknown; edges by feature as (head, tail)."""

    stage: int
    host: int
    duration: float
    features: dict[str, float]
    edges: dict[str, tuple[float, float]] = field(default_factory=dict)


def median(values: Sequence[float]) -> Fraction:
    return quantile(values, Fraction(1, 2))


def quantile(values: Sequence[float | Fraction], q: Fraction) -> Fraction:
    """The q quantile, between two values in proportion."""
    ordered = sorted(Fraction(v) for v in values)
    place = q * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def mean(values: Sequence[Fraction]) -> Fraction:
    return sum(values, Fraction(0)) / len(values)


def stragglers(tasks: Sequence[NaiveTask], scale: float = 1.5) -> list[int]:
    """§II-A: longer than 1.5 × the median of the stage."""
    found = []
    for number, task in enumerate(tasks):
        stage = [t.duration for t in tasks if t.stage == task.stage]
        if Fraction(task.duration) > Fraction(scale) * median(stage):
            found.append(number)
    return found


def value(task: NaiveTask, name: str, kind: str, tasks: Sequence[NaiveTask]) -> Fraction | None:
    """Table II: B / B_avg for amounts, T / T_task for times; a resource as it is (eq. 1 to 3)."""
    raw = task.features[name]
    if isnan(raw):
        return None
    if kind == "time":
        return Fraction(raw) / Fraction(task.duration) if task.duration > 0 else None
    if kind == "numerical":
        stage = [t.features[name] for t in tasks if t.stage == task.stage]
        average = mean([Fraction(v) for v in stage if not isnan(v)])
        return Fraction(raw) / average if average else Fraction(0)
    return Fraction(raw)


def root_causes(
    tasks: Sequence[NaiveTask],
    kinds: Mapping[str, str],
    *,
    straggler: float = 1.5,
    quantile_: float,
    ratio: float,
    edge: float,
    floor: float = 0.2,
) -> set[tuple[int, str]]:
    """(task, feature) of every root cause of every straggler (§III-B)."""
    slow = stragglers(tasks, straggler)
    found = set()
    for number in slow:
        task = tasks[number]
        stage = [n for n, t in enumerate(tasks) if t.stage == task.stage]
        for name, kind in kinds.items():
            if kind == "discrete":
                if _locality(tasks, stage, slow, number, name):
                    found.add((number, name))
                continue
            mine = value(task, name, kind, tasks)
            if mine is None:
                continue
            known = {n: value(tasks[n], name, kind, tasks) for n in stage}
            everyone = [v for v in known.values() if v is not None]
            above = mine > quantile(everyone, Fraction(quantile_))  # eq. 5, first line
            stands_out = False
            for same_host in (False, True):
                peers = [
                    v
                    for n, v in known.items()
                    if v is not None and n != number and (tasks[n].host == task.host) is same_host
                ]
                if peers:
                    stands_out |= mine > mean(peers) * Fraction(ratio)  # eq. 5, second line
            if not (above and stands_out):
                continue
            if kind == "time" and not mine > Fraction(floor):
                continue
            if kind == "resource" and not _not_its_own(task, name, mine, edge):
                continue
            found.add((number, name))
    return found


def _not_its_own(task: NaiveTask, name: str, mine: Fraction, edge: float) -> bool:
    """Eq. 6 as the text means it: keep the feature if the host was busy before or after."""
    return any(
        not isnan(side) and Fraction(side) > Fraction(edge) * mine for side in task.edges[name]
    )


def _locality(
    tasks: Sequence[NaiveTask], stage: Sequence[int], slow: Sequence[int], number: int, name: str
) -> bool:
    """Eq. 7: the straggler's is 2, and normal tasks' sum is below half their number."""
    normal = [tasks[n].features[name] for n in stage if n not in slow]
    normal = [v for v in normal if not isnan(v)]
    return tasks[number].features[name] == 2 and sum(normal) < Fraction(len(normal), 2)


def pearson(tasks: Sequence[NaiveTask], stage: int, name: str, kind: str) -> float:
    """ρ of a feature with the duration in a stage (eq. 8); 0 where one is constant."""
    pairs = [
        (float(v), t.duration)
        for t in tasks
        if t.stage == stage and (v := value(t, name, kind, tasks)) is not None
    ]
    if not pairs:
        return 0.0
    x, y = zip(*pairs, strict=True)
    mx, my = sum(x) / len(x), sum(y) / len(y)
    both = sum((a - mx) * (b - my) for a, b in pairs)
    sx = sum((a - mx) ** 2 for a in x) ** 0.5
    sy = sum((b - my) ** 2 for b in y) ** 0.5
    return both / (sx * sy) if sx > 1e-9 * max(map(abs, x)) and sy > 0 else 0.0
