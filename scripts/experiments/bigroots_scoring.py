"""Score causes against injected anomalies, per straggler and resource (BigRoots eq. 9).

The anomaly generator loads three features: CPU, disk and network. Each straggler has one decision
for each of them. Eq. 9 prints FPR = FN / (FP + TN); table V's own numbers are FP / (FP + TN).
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import iqcar
from iqcar.causes.stragglers.features import (
    CPU,
    DISK,
    NETWORK,
    PAPER_FEATURES,
    TaskFeatures,
    after,
    before,
    build_features,
)
from iqcar.causes.stragglers.root_causes import ComparedTasks, cause_names, find_marks
from iqcar.causes.stragglers.straggler_result import Marks, StragglerSettings
from iqcar.enums import CauseEvidence
from iqcar.model.waits.measure import measure_waits
from iqcar_lab.inject.run_plan import LEAD_S, read_log
from tests.support.naive_bigroots import EQUATIONS
from tests.support.pearson_baseline import PccSettings, pcc_marks

RESOURCES = ("cpu", "io", "network")
"""Anomalies, in the order of the columns of truth and decisions."""
CLEAR_SHARE = 0.5
"""An injection that was there for this share of a straggler is beyond doubt."""

Flags = NDArray[np.bool_]
LENGTH_S = 10
"""As long as each injection of table IV."""
GAP_S = 8
"""Quiet time before each single injection: longer than the tasks that it may still delay."""
TABLE_IV = (
    (0, 0, "cpu"), (0, 100, "io"),
    (1, 30, "cpu"), (1, 63, "cpu"), (1, 83, "cpu"),
    (2, 99, "io"),
    (3, 27, "network"), (3, 87, "io"), (3, 112, "network"),
    (4, 33, "io"), (4, 53, "cpu"), (4, 69, "io"), (4, 100, "cpu"),
)  # fmt: skip
"""Slave, second and anomaly; ten seconds each."""
MULTI_S = 126
"""Until the last injection of table IV has ended, and its tasks."""


class Injected(NamedTuple):
    """One injection as it was: host, anomaly, and its time by the log (epoch ms)."""

    host: str
    anomaly: str
    start_ms: float
    end_ms: float


class Counts(NamedTuple):
    """Decisions: right and wrong, positive and negative."""

    tp: int
    tn: int
    fp: int
    fn: int

    @property
    def tpr(self) -> float | None:
        """Share of affected features that were found; None without any."""
        return self.tp / (self.tp + self.fn) if self.tp + self.fn else None

    @property
    def fpr(self) -> float | None:
        """Share of unaffected features that were named; None without any."""
        return self.fp / (self.fp + self.tn) if self.fp + self.tn else None

    @property
    def accuracy(self) -> float | None:
        """Share of right decisions; None without any."""
        whole = self.tp + self.tn + self.fp + self.fn
        return (self.tp + self.tn) / whole if whole else None

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {**self._asdict(), "tpr": self.tpr, "fpr": self.fpr, "accuracy": self.accuracy}


def overlaps(
    host: Sequence[str],
    launch_ms: NDArray[np.float64],
    finish_ms: NDArray[np.float64],
    injected: Sequence[Injected],
) -> NDArray[np.float64]:
    """How long each straggler shared its host with each anomaly, in ms.

    Injections of one anomaly on one host never overlap, so their times add up.
    """
    found = np.zeros((len(host), len(RESOURCES)))
    named = np.array(host, dtype=object)
    for one in injected:
        both = np.minimum(finish_ms, one.end_ms) - np.maximum(launch_ms, one.start_ms)
        column = RESOURCES.index(one.anomaly)
        found[:, column] += np.where(named == one.host, np.maximum(both, 0.0), 0.0)
    return found


def begun(
    host: Sequence[str],
    launch_ms: NDArray[np.float64],
    finish_ms: NDArray[np.float64],
    injected: Sequence[Injected],
    lead_ms: float,
) -> Flags:
    """Which stragglers ran while processes of an injection started on their host.

    The anomaly generator starts its processes up to ``lead_ms`` before an injection begins; on a
    host with part of a core that is a load already.
    """
    leads = [Injected(i.host, RESOURCES[0], i.start_ms - lead_ms, i.start_ms) for i in injected]
    return overlaps(host, launch_ms, finish_ms, leads)[:, 0] > 0


def truth_of_the_paper(shared_ms: NDArray[np.float64]) -> Flags:
    """An injection that overlaps a straggler affected it (§IV-B1)."""
    return shared_ms > 0


def could_delay(
    shared_ms: NDArray[np.float64], duration_ms: NDArray[np.float64], reads: Flags, starting: Flags
) -> tuple[Flags, Flags]:
    """What was injected that could delay a straggler, by what its task is known to do.

    A disk delays tasks that read files, and traffic over loopback nobody: the paper's first reason
    why it misses what it counts as affected (§IV-B4). Its last one is short overlaps.

    shared_ms: ndarray of float64, (stragglers, resources)
    duration_ms: ndarray of float64, (stragglers,)
    reads: whether the task reads files.
    starting: whether an injection's processes started meanwhile (:func:`begun`).
    Returns truth (what was there for at least half of the straggler, and could delay it) and
    counted (which decisions are beyond doubt: not those of a shorter overlap, nor of the processor
    during traffic over loopback or while an injection starts, which take some of it).
    """
    able = np.ones(shared_ms.shape, bool)
    able[:, RESOURCES.index("io")] = reads
    able[:, RESOURCES.index("network")] = False
    share = shared_ms / np.maximum(duration_ms, 1.0)[:, np.newaxis]
    truth: Flags = able & (share >= CLEAR_SHARE)
    doubtful = able & (share > 0) & ~truth
    taken = starting | (shared_ms[:, RESOURCES.index("network")] > 0)
    cpu = RESOURCES.index("cpu")
    doubtful[:, cpu] |= taken & ~truth[:, cpu]
    return truth, ~doubtful


def count(truth: Flags, named: Flags, counted: Flags | None = None) -> Counts:
    """Count decisions (eq. 9).

    truth, named: what was affected, and what was named as a cause.
    counted: which decisions count; by default all.
    """
    counted = np.ones_like(truth) if counted is None else counted
    return Counts(
        tp=int((truth & named & counted).sum()),
        tn=int((~truth & ~named & counted).sum()),
        fp=int((~truth & named & counted).sum()),
        fn=int((truth & ~named & counted).sum()),
    )


def curve(points: Sequence[Counts]) -> list[tuple[float, float]]:
    """The ROC curve of one threshold's values: (FPR, TPR) in order, from (0, 0) to (1, 1)."""
    known = {(p.fpr, p.tpr) for p in points if p.fpr is not None and p.tpr is not None}
    return sorted({(0.0, 0.0), (1.0, 1.0), *known})


def area(points: Sequence[tuple[float, float]]) -> float:
    """Area under a ROC curve, by trapezoids."""
    x, y = np.array(sorted(points)).T
    return float(np.sum(np.diff(x) * (y[1:] + y[:-1]) / 2))


class Part(NamedTuple):
    """One experiment: its injections, in seconds from its start.

    name: quiet, an anomaly, mixed (all of them on one host) or multi-node (table IV).
    injections: (host number, second, seconds, anomaly)
    """

    name: str
    for_s: int
    injections: tuple[tuple[int, int, int, str], ...]


def parts(seed: int, hosts: int, times: int) -> list[Part]:
    """Make all experiments.

    seed: picks hosts, and the moments of the mixed one.
    hosts: at least 5 for table IV.
    times: injections of each single experiment.
    """
    pick = random.Random(seed)
    found = [Part("quiet", 2 * GAP_S, ())]
    last = times * (LENGTH_S + GAP_S)
    for anomaly in RESOURCES:
        host = pick.randrange(hosts)
        turns = range(GAP_S, GAP_S + last, LENGTH_S + GAP_S)
        injections = tuple((host, at, LENGTH_S, anomaly) for at in turns)
        found.append(Part(anomaly, GAP_S + last, injections))
    host = pick.randrange(hosts)
    mixed = [(host, pick.randrange(last - LENGTH_S), LENGTH_S, one) for one in RESOURCES]
    found.append(Part("mixed", last + GAP_S, tuple(mixed)))
    table = tuple((host, at, LENGTH_S, anomaly) for host, at, anomaly in TABLE_IV)
    found.append(Part("multi-node", MULTI_S, table))
    return found


def plan_of(
    part: Part, host: int, name: str, settings: dict[str, dict[str, Any]], wait_ms: int = 0
) -> dict[str, Any]:
    """One host's injections as a file for ``iqcar-lab inject schedule --plan``."""
    mine = [one for one in part.injections if one[0] == host]
    return {
        "injections": [
            {"host": name, "anomaly": anomaly, "after_ms": wait_ms + 1000 * at,
             "for_ms": 1000 * seconds, "settings": settings[anomaly]}
            for _, at, seconds, anomaly in mine
        ]
    }  # fmt: skip


def starts(found: Sequence[Part], from_ms: int) -> list[int]:
    """When each experiment starts, one after the other (epoch ms)."""
    lengths = [1000 * part.for_s for part in found[:-1]]
    return list(accumulate(lengths, initial=from_ms))


CAUSES = dict(zip((CPU, DISK, NETWORK), RESOURCES, strict=True))
OURS = StragglerSettings()
PAPER = replace(EQUATIONS, least_tasks=OURS.least_tasks)
"""The paper's method on the stages that ours looks at, so that both judge the same stragglers."""
STEPS = 21
"""Values of a threshold that a ROC curve is drawn from."""


@dataclass(frozen=True)
class Judged:
    """Stragglers and the features of all tasks, in two forms.

    features: with everything recorded
    paper: with the paper's features only
    edgeless: the same, in hosts that were always as busy: edge detection drops nothing
    compared: the tasks compared
    rows: the stragglers' positions among them
    """

    features: TaskFeatures
    paper: TaskFeatures
    edgeless: TaskFeatures
    compared: ComparedTasks
    rows: NDArray[np.int64]

    @classmethod
    def from_features(cls, features: TaskFeatures, within: NDArray[np.bool_]) -> Judged:
        """Choose the stragglers among the tasks (rows of the features) that are meant."""
        compared = ComparedTasks.from_features(features, OURS)
        rows = np.flatnonzero(compared.straggler & within[compared.rows])
        paper = replace(features, features=PAPER_FEATURES)
        known = [f for f in PAPER_FEATURES if before(f) in features.frame]
        edges = {name: np.inf for f in known for name in (before(f), after(f))}
        return cls(
            features, paper, replace(paper, frame=paper.frame.assign(**edges)), compared, rows
        )

    def named(self, features: TaskFeatures, marks: Marks) -> Flags:
        """Which resources the marks name as causes of which straggler."""
        number = np.full(len(self.compared.rows), -1)
        number[self.rows] = np.arange(len(self.rows))
        found = np.zeros((len(self.rows), len(RESOURCES)), bool)
        for task, cause in zip(marks.task.tolist(), cause_names(features, marks), strict=True):
            if cause in CAUSES and number[task] >= 0:
                found[number[task], RESOURCES.index(CAUSES[cause])] = True
        return found

    def found_by(self, features: TaskFeatures, settings: StragglerSettings) -> Flags:
        """What BigRoots, or our variant of it, names."""
        return self.named(features, find_marks(features, self.compared, settings))

    def pcc(self, settings: PccSettings) -> Flags:
        """What the baseline names."""
        return self.named(self.paper, pcc_marks(self.paper, self.compared, settings))


METHODS: dict[str, Callable[[Judged], Flags]] = {
    "measured": lambda j: j.found_by(j.features, OURS),
    "BigRoots": lambda j: j.found_by(j.paper, PAPER),
    "BigRoots without edges": lambda j: j.found_by(j.edgeless, PAPER),
    "PCC": lambda j: j.pcc(PccSettings()),
}
"""Each with its named defaults; nothing was fitted to a run."""


def sweeps(judged: Judged) -> Iterator[tuple[str, list[float], list[Flags]]]:
    """Move one threshold of each method over its range; the others keep their defaults.

    Yields the method, the values, and what it names with each.
    """
    shares = np.linspace(0.0, 1.0, STEPS).tolist()
    ratios = np.geomspace(1.0, 16.0, STEPS).tolist()
    ours = [replace(OURS, explains=share, evidence=CauseEvidence.AUTO) for share in shares]
    yield "measured", shares, [judged.found_by(judged.features, one) for one in ours]
    paper = [replace(PAPER, ratio=ratio) for ratio in ratios]
    yield "BigRoots", ratios, [judged.found_by(judged.paper, one) for one in paper]
    edgeless = [judged.found_by(judged.edgeless, one) for one in paper]
    yield "BigRoots without edges", ratios, edgeless
    pcc = [PccSettings(pearson=share) for share in shares]
    yield "PCC", shares, [judged.pcc(one) for one in pcc]


def all_pcc(judged: Judged) -> Iterator[tuple[PccSettings, Flags]]:
    """The baseline at every pair of its two thresholds, for the exhaustive search of §IV-B1."""
    for pearson in np.linspace(0.0, 0.95, STEPS - 1).tolist():
        for quantile in np.linspace(0.0, 0.95, STEPS - 1).tolist():
            settings = PccSettings(pearson, quantile)
            yield settings, judged.pcc(settings)


Floats = NDArray[np.float64]
READING = "scan"
"""The query of :mod:`bigroots_jobs` whose tasks read files."""
LITTLE = "it waited little more for it than its work explains"


def injected(path: Path) -> list[Injected]:
    """What was injected, by its log; one that failed ends the experiment."""
    found = []
    for record in read_log(str(path)):
        if record.error or record.start_ms is None or record.end_ms is None:
            raise SystemExit(f"{path}: injection {record.injection} failed: {record.error}")
        times = float(record.start_ms), float(record.end_ms)
        found.append(Injected(record.host, record.anomaly, *times))
    return found


ROWS = (
    "part", "host", "reads", "starting", "shared_ms", "truth", "delaying", "counted",
    "duration_ms", "delay_ms",
)  # fmt: skip


@dataclass(frozen=True)
class Scored:
    """The decisions of one run, or of several put together; one row per straggler.

    part: name of the experiment it was launched in
    host: where it ran
    reads, starting: whether its task reads files, and ran while an injection's processes started
    shared_ms, truth, delaying, counted: (stragglers, resources); see :mod:`bigroots_scoring`
    duration_ms, delay_ms: its duration, and what of it was over its stage's median
    named: by method, (stragglers, resources)
    moved: by method and by value of one threshold
    grid: the baseline's, by its two thresholds
    tasks, stages: how many were compared
    injected: anomalies, one entry per injection
    """

    part: NDArray[np.object_]
    host: NDArray[np.object_]
    reads: Flags
    starting: Flags
    shared_ms: Floats
    truth: Flags
    delaying: Flags
    counted: Flags
    duration_ms: Floats
    delay_ms: Floats
    named: dict[str, Flags]
    moved: dict[str, dict[float, Flags]]
    grid: dict[tuple[float, float], Flags]
    tasks: int
    stages: int
    injected: list[str]

    @classmethod
    def from_run(cls, folder: Path, planned: Sequence[Part], moments: Sequence[int]) -> Scored:
        """Judge one run.

        folder: with ``eventlogs/`` and ``truth.jsonl``.
        planned: the experiments, in order.
        moments: when each of them started, epoch ms.
        """
        tables = iqcar.read([folder / "eventlogs"])
        features = build_features(tables, measure_waits(tables), OURS.edge_ms)
        launch = features.column("launch_ms")
        within = launch >= moments[0]
        judged = Judged.from_features(features, within)
        compared = judged.compared
        rows = compared.rows[judged.rows]
        duration = compared.duration[judged.rows]
        names = tables.hosts["host"].astype(str).to_numpy()
        host = names[features.frame["host"].to_numpy()[rows]]
        truths = injected(folder / "truth.jsonl")
        shared = overlaps(list(host), launch[rows], launch[rows] + duration, truths)
        queries = tables.queries["name"].astype(str).to_numpy()
        reads = queries[features.frame["query"].to_numpy()[rows]] == READING
        finish, lead_ms = launch[rows] + duration, 1000 * LEAD_S
        starting = begun(list(host), launch[rows], finish, truths, lead_ms)
        delaying, counted = could_delay(shared, duration, reads, starting)
        part = np.searchsorted(np.array(moments), launch[rows], side="right") - 1
        seen = within[compared.rows]
        return cls(
            part=np.array([one.name for one in planned], dtype=object)[part],
            host=host.astype(object),
            reads=reads,
            starting=starting,
            shared_ms=shared,
            truth=truth_of_the_paper(shared),
            delaying=delaying,
            counted=counted,
            duration_ms=duration,
            delay_ms=duration - compared.median[judged.rows],
            named={name: method(judged) for name, method in METHODS.items()},
            moved={
                method: dict(zip(values, flags, strict=True))
                for method, values, flags in sweeps(judged)
            },
            grid={(s.pearson, s.quantile): flags for s, flags in all_pcc(judged)},
            tasks=int(seen.sum()),
            stages=len(np.unique(compared.stage[seen])),
            injected=[one.anomaly for one in truths],
        )

    @classmethod
    def join(cls, runs: Sequence[Scored]) -> Scored:
        """Put the decisions of several runs together."""

        def both(name: str) -> Any:
            return np.concatenate([getattr(run, name) for run in runs])

        first = runs[0]
        return cls(
            **{name: both(name) for name in ROWS},
            named={k: np.concatenate([run.named[k] for run in runs]) for k in first.named},
            moved={
                k: {v: np.concatenate([run.moved[k][v] for run in runs]) for v in of}
                for k, of in first.moved.items()
            },
            grid={k: np.concatenate([run.grid[k] for run in runs]) for k in first.grid},
            tasks=sum(run.tasks for run in runs),
            stages=sum(run.stages for run in runs),
            injected=[one for run in runs for one in run.injected],
        )


def make_result(runs: Sequence[Scored]) -> dict[str, Any]:
    """Score every method in every experiment, over all runs together."""
    of = Scored.join(runs)
    (pearson, quantile), best = max(
        of.grid.items(), key=lambda pair: count(of.truth, pair[1]).accuracy or 0.0
    )
    named = {**of.named, "PCC, best thresholds": best}
    parts = list(dict.fromkeys(of.part.tolist()))
    return {
        "runs": len(runs),
        "hosts": len(set(of.host.tolist())),
        "tasks": of.tasks,
        "stages": of.stages,
        "stragglers": len(of.part),
        "injections": dict(Counter(of.injected)),
        "resources": list(RESOURCES),
        "pcc_best": {"pearson": pearson, "quantile": quantile},
        "experiments": [_experiment(one, named, of, of.part == one) for one in parts],
        "all": _experiment("all", named, of, np.ones(len(of.part), bool)),
        "missed": _missed(of),
        "wrong": _wrong(of),
        "roc": [_roc(method, values, of, parts) for method, values in of.moved.items()],
    }


def _experiment(
    name: str, named: dict[str, Flags], of: Scored, mine: NDArray[np.bool_]
) -> dict[str, Any]:
    """Counts of one experiment's stragglers, by the paper's truth and by what could delay."""
    truth, delaying, counted = of.truth[mine], of.delaying[mine], of.counted[mine]
    return {
        "name": name,
        "stragglers": int(mine.sum()),
        "methods": {
            method: {
                "paper": count(truth, flags[mine]).to_dict(),
                "could_delay": count(delaying, flags[mine], counted).to_dict(),
            }
            for method, flags in named.items()
        },
    }


def _roc(
    method: str, values: dict[float, Flags], of: Scored, parts: Sequence[str]
) -> dict[str, Any]:
    """Points over one threshold, and the area under the curve for all and each experiment."""
    points = [count(of.truth, flags) for flags in values.values()]
    delaying = [count(of.delaying, flags, of.counted) for flags in values.values()]
    areas = {"all": area(curve(points)), "all, what could delay": area(curve(delaying))}
    for part in parts:
        mine = of.part == part
        found = [count(of.truth[mine], flags[mine]) for flags in values.values()]
        if found[0].tpr is not None:
            areas[part] = area(curve(found))
    shown = [
        {"threshold": v, "fpr": p.fpr, "tpr": p.tpr} for v, p in zip(values, points, strict=True)
    ]
    return {"method": method, "points": shown, "auc": areas}


def _missed(of: Scored) -> dict[str, int]:
    """Why measured waits name no cause where something was injected: the paper's reasons."""
    reasons: Counter[str] = Counter()
    for row, column in np.argwhere(of.truth & ~of.named["measured"]).tolist():
        if RESOURCES[column] == "network":
            reasons["traffic over loopback, for which nobody waits"] += 1
        elif RESOURCES[column] == "io" and not of.reads[row]:
            reasons["a busy disk, and a task that reads no file"] += 1
        elif of.shared_ms[row, column] < OURS.explains * of.delay_ms[row]:
            reasons["an overlap too short to explain a quarter of the delay"] += 1
        elif not of.counted[row, column]:
            reasons[f"an overlap of less than half of the straggler; {LITTLE}"] += 1
        else:
            reasons[LITTLE] += 1
    return dict(reasons)


def _wrong(of: Scored) -> dict[str, int]:
    """Which resources measured waits name where none was injected, and what was there instead."""
    found: Counter[str] = Counter()
    for row, column in np.argwhere(~of.truth & of.named["measured"]).tolist():
        if RESOURCES[column] == "cpu" and of.starting[row]:
            found["cpu while the processes of an injection started there"] += 1
        elif RESOURCES[column] == "cpu" and of.shared_ms[row, RESOURCES.index("network")] > 0:
            found["cpu during traffic over loopback, which takes some"] += 1
        else:
            found[f"{RESOURCES[column]} in {of.part[row]}"] += 1
    return dict(found)
