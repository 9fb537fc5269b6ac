"""Finds root causes of stragglers as BigRoots prints it (eq. 1 to 7).

H. Zhou, Y. Li, H. Yang, J. Jia, W. Li: *BigRoots: An Effective Approach for Root-cause Analysis of
Stragglers in Big Data System*, 2018. Our own method, and why it leaves the paper:
docs/stragglers.md.

Symbols: F `PrintedTask.features`; F_peer :func:`peer_means`; λq, λp, λe, t `quantile`, `ratio`,
`edge`, `edge_ms` of :class:`PrintedThresholds`; t₀, t₁ the span.

Where the print leaves a choice:

- Eq. 1 to 3 divide by t₁ − t₀ a sum with one sample per second from t₀ to t₁, both ends included:
  a busy host would be busier than always. Taken: the mean of these samples. A task with no sample
  has no such feature, and what is unknown is never a cause.
- Eq. 1 counts user time only; system time and IO wait are no CPU utilisation.
- Eq. 4 is 2 for NOPREF too, "otherwise", though such a task is badly placed nowhere.
- Eq. 5 takes its quantile "across all tasks", §IV-B2 compares "within the same stage". Taken: all
  tasks, as the name `global_quantile` says. §IV-B2 also has medians where eq. 5 has means.
- "The value of the feature must be 0.2 times larger than its peer task" explains F > 0.2, which is
  another rule. Taken: the inequality.
- Eq. 6 as printed keeps what its text drops: it filters a feature out where the host was as busy
  before and after, and so would clear every injected load that lasts longer than a task (the paper
  reports 20 of 20 found). Taken: the text: "raises after task begins and drops after task ends".
- λq, λp, λe and t are tuned and not printed: ours stand in.

Paper: BigRoots | eq. 1 to 3, table II | exact; means of samples |
  tests/lab/printed/test_bigroots_printed.py
Paper: BigRoots | eq. 4, 5, 7, §III | exact | tests/lab/printed/test_bigroots_printed.py
Paper: BigRoots | eq. 6: edges | its text; the equation says the opposite |
  tests/lab/printed/test_bigroots_printed.py
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from iqcar.tables import Tables, texts

NUMERICAL = {
    "read_bytes": ("input_bytes",),
    "shuffle_read_bytes": ("remote_bytes", "local_bytes"),
    "shuffle_write_bytes": ("shuffle_write_bytes",),
    "memory_bytes_spilled": ("memory_spilled_bytes",),
    "disk_bytes_spilled": ("disk_spilled_bytes",),
}
"""Table II: amounts B / B_avg, and the columns of `tasks` that sum to B."""
TIME = {
    "JVMGC_time": "gc_ms",
    "serialize_time": "result_serialize_ms",
    "deserialize_time": "deserialize_ms",
}
"""Table II: times T / T_task, and the column of T."""
RESOURCE = ("cpu", "disk", "network")
LOCALITY = "locality"
FLOOR = 0.2
"""Of time features (§III-B)."""
STRAGGLER = 1.5
"""Times the median of the stage (§II-A)."""


class PrintedThresholds(NamedTuple):
    """Thresholds of the method."""

    quantile: float = 0.8
    ratio: float = 1.5
    edge: float = 0.5
    edge_ms: float = 3000.0


DEFAULT = PrintedThresholds()


class Sample(NamedTuple):
    """What MPSTAT, IOSTAT and SAR say of a node at one moment."""

    time_ms: float
    cpu: float
    """user_time / total_time, averaged over the cores."""
    disk: float
    """I/O_time / total_time."""
    network: float
    """Bytes sent and received per second."""


class PrintedTask(NamedTuple):
    """A task with its features; what is unknown is left out."""

    stage: int
    node: int
    duration: float
    features: Mapping[str, float]
    head: Mapping[str, float] = {}
    """Mean of each resource feature during t before it begins."""
    tail: Mapping[str, float] = {}
    """The same after it finishes."""


class PrintedCause(NamedTuple):
    """A feature that is a root cause of a straggler."""

    task: int
    """Position among the tasks."""
    feature: str
    value: float
    quantile: float
    peer_mean: float


@dataclass(frozen=True)
class FeaturePool:
    """All tasks, by stage and by node (figure 1)."""

    tasks: Sequence[PrintedTask]
    stages: Mapping[int, list[int]]
    nodes: Mapping[tuple[int, int], list[int]]
    medians: Mapping[int, float]
    """Of the durations, by stage."""

    @classmethod
    def of(cls, tasks: Sequence[PrintedTask]) -> FeaturePool:
        """Collect the tasks of each stage and of each node in it."""
        stages, nodes = defaultdict(list), defaultdict(list)
        for number, task in enumerate(tasks):
            stages[task.stage].append(number)
            nodes[task.stage, task.node].append(number)
        medians = {s: median(tasks[n].duration for n in of) for s, of in stages.items()}
        return cls(tasks, stages, nodes, medians)

    def is_straggler(self, number: int) -> bool:
        """Return whether its duration is over 1.5 times the median of its stage (§III-A)."""
        return self.tasks[number].duration > STRAGGLER * self.medians[self.tasks[number].stage]

    def stragglers(self) -> list[int]:
        """Return the positions of all stragglers."""
        return [number for number in range(len(self.tasks)) if self.is_straggler(number)]

    def known(self, numbers: Sequence[int], feature: str) -> list[float]:
        """Return the values of a feature in some tasks."""
        each = (self.tasks[number].features.get(feature) for number in numbers)
        return [value for value in each if value is not None]


def is_sane(value: float) -> bool:
    """Return whether a number is known, and not damage in a log that would overflow a sum."""
    return abs(value) < 1e100


def mean_utilisation(samples: Sequence[Sample], start: float, end: float) -> dict[str, float]:
    """Compute eq. 1 to 3 from the samples of one node, ordered by time; empty without any."""
    first = bisect_left(samples, start, key=lambda one: one.time_ms)
    last = bisect_right(samples, end, key=lambda one: one.time_ms)
    within = samples[first:last]
    each = {name: [getattr(one, name) for one in within] for name in RESOURCE}
    known = {name: [v for v in values if is_sane(v)] for name, values in each.items()}
    return {name: fmean(values) for name, values in known.items() if values}


def locality_feature(locality: str) -> float:
    """Compute eq. 4."""
    return {"PROCESS_LOCAL": 0.0, "NODE_LOCAL": 1.0}.get(locality, 2.0)


def quantile_of(values: Sequence[float], q: float) -> float:
    """Return the q quantile, between two values in proportion."""
    return float(np.quantile(values, q))


def peer_means(pool: FeaturePool, number: int, feature: str) -> list[float]:
    """Return the means of F_peer: over tasks on other nodes, and over the others on its node.

    Those of the same stage; a group of which nothing is known has no mean.
    """
    task = pool.tasks[number]
    mine = pool.nodes[task.stage, task.node]
    on_mine = set(mine)
    inter = [other for other in pool.stages[task.stage] if other not in on_mine]
    intra = [other for other in mine if other != number]
    groups = (pool.known(group, feature) for group in (inter, intra))
    return [fmean(values) for values in groups if values]


def root_causes(
    tasks: Sequence[PrintedTask], limits: PrintedThresholds = DEFAULT
) -> list[PrintedCause]:
    """Find the root causes of all stragglers, by task, in the order of the features (§III-C)."""
    pool = FeaturePool.of(tasks)
    everyone = range(len(tasks))
    bounds: dict[str, float] = {}
    for feature in (*NUMERICAL, *TIME, *RESOURCE):
        if values := pool.known(everyone, feature):
            bounds[feature] = quantile_of(values, limits.quantile)
    return [
        cause
        for number in pool.stragglers()
        for cause in (*_above_peers(pool, number, bounds, limits), *_badly_placed(pool, number))
    ]


def _above_peers(
    pool: FeaturePool, number: int, bounds: Mapping[str, float], limits: PrintedThresholds
) -> Iterator[PrintedCause]:
    """Apply eq. 5, the floor of times, and edge detection."""
    task = pool.tasks[number]
    for feature, bound in bounds.items():
        value = task.features.get(feature)
        if value is None or value <= bound or (feature in TIME and value <= FLOOR):
            continue
        over = [m for m in peer_means(pool, number, feature) if value > m * limits.ratio]
        if over and not (feature in RESOURCE and was_its_own(task, feature, limits.edge)):
            yield PrintedCause(number, feature, value, bound, max(over))


def was_its_own(task: PrintedTask, feature: str, edge: float) -> bool:
    """Return whether use rose when the task began and dropped when it ended (eq. 6, by its text).

    An edge that nobody sampled did not rise or drop.
    """
    least = edge * task.features[feature]
    return all(side.get(feature, np.inf) <= least for side in (task.head, task.tail))


def _badly_placed(pool: FeaturePool, number: int) -> Iterator[PrintedCause]:
    """Apply eq. 7: its locality is 2, normal tasks' is less than ½ on average."""
    task = pool.tasks[number]
    if task.features.get(LOCALITY) != 2:
        return
    normal = [n for n in pool.stages[task.stage] if not pool.is_straggler(n)]
    values = pool.known(normal, LOCALITY)
    if sum(values) < len(normal) / 2:
        yield PrintedCause(number, LOCALITY, 2.0, np.nan, fmean(values) if values else np.nan)


def sampled_nodes(tables: Tables) -> dict[int, list[Sample]]:
    """Return the samples of each host, ordered by time."""
    found: dict[int, list[Sample]] = defaultdict(list)
    frame = tables.samples
    moved = (frame["net_in_bytes"] + frame["net_out_bytes"]) / (frame["duration_ms"] / 1000)
    columns = (frame["host"], frame["time_ms"], frame["cpu_user"] / 100, frame["disk_busy"], moved)
    for host, *values in zip(*columns, strict=True):
        if is_sane(values[0]):
            found[int(host)].append(Sample(*map(float, values)))
    return {host: sorted(samples) for host, samples in found.items()}


def tasks_with_features(
    tables: Tables, edge_ms: float = DEFAULT.edge_ms
) -> tuple[list[int], list[PrintedTask]]:
    """Compute the features of the tasks that succeeded; also their rows in `tasks`."""
    frame, nodes = tables.tasks, sampled_nodes(tables)
    localities, status = texts(frame, "locality"), texts(frame, "status")
    amounts = pd.DataFrame(
        {n: frame[list(of)].sum(axis=1, min_count=1) for n, of in NUMERICAL.items()}
    )
    average = amounts.groupby(frame["stage"]).transform("mean")
    took = frame["finish_ms"] - frame["launch_ms"]
    shares = {**amounts / average, **{name: frame[of] / took for name, of in TIME.items()}}
    values = {name: column.tolist() for name, column in shares.items()}
    rows, tasks = [], []
    spans = zip(frame["launch_ms"].tolist(), frame["finish_ms"].tolist(), strict=True)
    places = zip(frame["stage"].tolist(), frame["host"].tolist(), strict=True)
    for row, ((start, end), (stage, node)) in enumerate(zip(spans, places, strict=True)):
        if stage < 0 or status[row] != "success" or not end > start:
            continue
        samples = nodes.get(node, [])
        known = {name: each[row] for name, each in values.items() if is_sane(each[row])}
        during = mean_utilisation(samples, start, end)
        features = {**known, **during, LOCALITY: locality_feature(localities[row])}
        one = PrintedTask(stage, node, end - start, features)
        head = mean_utilisation(samples, start - edge_ms, np.nextafter(start, -np.inf))
        tail = mean_utilisation(samples, np.nextafter(end, np.inf), end + edge_ms)
        rows.append(row)
        tasks.append(one._replace(head=head, tail=tail))
    return rows, tasks


def printed_stragglers(tables: Tables) -> pd.DataFrame:
    """Find stragglers and their causes, the most delayed first.

    A row per straggler and cause: `task` (row in the tables), `duration_ms`, `median_ms` of its
    stage, `feature` (empty: nothing explains it), its `value`, the `quantile` that it is above in
    eq. 5 (NaN for locality), and `peer_mean` (for locality over normal tasks).
    """
    rows, tasks = tasks_with_features(tables)
    pool = FeaturePool.of(tasks)
    causes: dict[int, list[PrintedCause]] = defaultdict(list)
    for cause in root_causes(tasks):
        causes[cause.task].append(cause)
    found: list[tuple[Any, ...]] = []
    for number in pool.stragglers():
        took, usual = tasks[number].duration, pool.medians[tasks[number].stage]
        unknown = PrintedCause(number, "", np.nan, np.nan, np.nan)
        of_it = causes.get(number, [unknown])
        found += [(rows[number], took, usual, *cause[1:]) for cause in of_it]
    found.sort(key=lambda one: (one[2] - one[1], one[0]))  # stable: causes keep their order
    names = ("task", "duration_ms", "median_ms", *PrintedCause._fields[1:])
    return pd.DataFrame(found, columns=list(names))
