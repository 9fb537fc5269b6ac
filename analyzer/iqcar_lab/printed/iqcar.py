"""Computes blame and iQC-Graph exactly as iQCAR prints them: slow, to be read beside the paper.

P. Kalmegh, S. Babu, S. Roy: *iQCAR: Inter-Query Contention Analyzer for Cluster Computing
Frameworks*, 2018. Symbols: tt a target task, st a source task, r a request (of table 4's deep
level) or all requests of a resource, h a host, WT and DP waiting time and data processed. Where the
print is silent, or contradicts itself, a docstring says so and what is done here. All times are in
ms. The main path does without: docs/demand.md says why.

Paper: iQCAR | eq. 1 to 6, table 4 | exact; the wait for the processor is added |
  tests/lab/printed/test_iqcar.py
Paper: iQCAR | eq. 7 to 10, table 2, §5 | exact | tests/lab/printed/test_iqcar.py
Paper: iQCAR | eq. 13, algorithms 1 and 2, §6.2.1 | exact | tests/lab/printed/test_iqcar.py
Paper: iQCAR | §4 to §6.2 on event logs | exact; data that Spark does not count is left out |
  tests/lab/printed/test_printed_blame.py
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite, isnan, nan
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd

from iqcar.enums import LEVELS
from iqcar.model.waits.columns import launch_wait
from iqcar.tables import NONE, Tables
from iqcar.tables.arrays import Floats, positive_or_zero, sum_known

Name: TypeAlias = int | str
"""Of a query, stage or host."""
Vertex: TypeAlias = tuple[Name, ...]
"""Its level, then what it stands for, such as (3, stage, request, host)."""
Edge: TypeAlias = tuple[Vertex, Vertex]
"""(u, v) from u at level l + 1 to v at level l."""
UNKNOWN = "unknown"
"""Source of all blame that cannot be assigned to a concurrent query (§5.5)."""

TABLE_4: Mapping[str, Mapping[str, str]] = {
    "slots": {"slot_wait": "slots_offered"},
    "cpu": {
        "run_queue": "input_bytes",
        "monitor_blocked": "input_bytes",
        "notification_wait": "input_bytes",
    },
    "memory": {
        "storage_memory": "storage_memory_asked",
        "execution_memory": "execution_memory_asked",
    },
    "network": {"shuffle_fetch": "remote_bytes_read"},
    "io": {"io_read": "io_bytes_read", "io_write": "io_bytes_written"},
}
"""The requests for each of the five resources, and which data each counts (table 4). The table
divides CPU into two waits for locks, although table 1 defines CWT as time blocked for CPU cycles:
the wait for the processor is added."""
DATA = {request: data for requests in TABLE_4.values() for request, data in requests.items()}


class PaperTask(NamedTuple):
    """A task that ran on one host from ``start`` (τ_start) to ``end`` (τ_end)."""

    query: Name
    stage: Name
    host: Name
    start: float
    end: float
    cpu: float
    """CPU time."""
    wait: Mapping[str, float]
    """WT by request; what nobody recorded is left out."""
    data: Mapping[str, float]
    """DP by kind of data."""

    def ratp(self, *requests: str) -> float:
        """Return RATP = WT / DP, uniform over the task (eq. 1 and 2).

        Of one request as in table 4's deep level, of several as in its immediate level: their
        waits over all data that they count ("storage or execution", "read or write" read as sums).
        NaN where no wait is known or no data was processed: eq. 1 has no value there.
        """
        known = [request for request in requests if request in self.wait]
        wait = sum(self.wait[request] for request in known)
        data = sum(self.data.get(name, 0.0) for name in {DATA[request] for request in known})
        return wait / data if data > 0 else nan


def least_ratp(tasks: Iterable[PaperTask], request: str) -> float:
    """Return RATP_h of the tasks of a host: the least wait per unit that any of them had (eq. 3).

    Definition 4.2 asks for the minimum, and for the ideal such as 1 / network speed, which logs do
    not tell. Tasks that did not wait are left out: by them S would be infinite. NaN if all are.
    """
    return min((ratp for task in tasks if (ratp := task.ratp(request)) > 0), default=nan)


def slowdown(ratp: float, least: float) -> float:
    """Return S_tt of eq. 3 from RATP_tt and RATP_h; 0 where either has no value."""
    found = (ratp - least) / least
    return 0.0 if isnan(found) else found


def overlap(tt: PaperTask, st: PaperTask) -> float:
    """Return o_end − o_start, for how long two tasks ran at once (eq. 5)."""
    return max(min(tt.end, st.end) - max(tt.start, st.start), 0.0)


def blame(tt: PaperTask, st: PaperTask, request: str, least: float) -> float:
    """Return β_{st→tt} = o / T_tt · RATP_tt / RATP_st (eq. 6); 0 where a RATP has no value.

    ``least``: RATP_h. Where st never waited eq. 6 divides by 0; eq. 10 lets no task use more than
    the host's capacity, 1 / RATP_h, which is taken. Nothing bounds Σ β by S. For slots, too, the
    print takes the overlap of executions, though tt waited before its own. §4.2 claims that blame
    counts only "periods where tt is waiting", and nothing while both wait: eq. 6 knows no periods.
    """
    of_target, of_source = tt.ratp(request), st.ratp(request)
    if not of_target > 0 or isnan(of_source):
        return 0.0
    return overlap(tt, st) / (tt.end - tt.start) * of_target / max(of_source, least)


def unknown_blame(slowed: float, blamed: float) -> float:
    """Return β_unknown of eq. 4, S − Σ β; 0 where eq. 6 attributes more than there is."""
    return max(slowed - blamed, 0.0)


def cumulative_ratp(tasks: Iterable[PaperTask], *requests: str) -> float:
    """Return Σ ∫ RATP dτ over tasks, which is RATP · T where it is uniform (eq. 7 and 8).

    The text calls that "wait-time per unit of data", which leaves out the integral's T.
    """
    amounts = ((task.end - task.start) * task.ratp(*requests) for task in tasks)
    return sum(amount for amount in amounts if not isnan(amount))


@dataclass(frozen=True)
class PaperGraph:
    """iQC-Graph: vertices with their VC, and IN(v), from where edges lead to v (table 2)."""

    contribution: dict[Vertex, float] = field(default_factory=dict)
    parents: dict[Vertex, dict[Vertex, None]] = field(default_factory=dict)

    def add(self, u: Vertex, contribution: float, v: Vertex | None = None) -> None:
        """Add a vertex that is not there yet, and its edge to v."""
        self.contribution.setdefault(u, contribution)
        self.parents.setdefault(u, {})
        if v is not None:
            self.parents[v][u] = None

    def level(self, level: int) -> list[Vertex]:
        """Return the vertices of a level."""
        return [u for u in self.contribution if u[0] == level]


def build_paper_graph(
    tasks: Sequence[PaperTask], targets: Iterable[Name], stages: Collection[Name] | None = None
) -> PaperGraph:
    """Build levels 0 to 6 for target queries, and target stages if not all of theirs (§5).

    VC is 1 for queries and source stages, CPU time for target stages (§5.1), eq. 7, 8 and 9 for
    IE, DE and BE.
    """
    graph, on_host = PaperGraph(), _grouped(tasks, "host")
    of_query = _grouped(tasks, "query")
    least = {
        (host, request): least_ratp(there, request)
        for host, there in on_host.items()
        for request in DATA
    }
    for query in targets:
        graph.add((0, query), 1.0)
        for stage, mine in _grouped(of_query.get(query, ()), "stage").items():
            if stages is not None and stage not in stages:
                continue
            graph.add((1, stage), sum(task.cpu for task in mine), (0, query))
            for resource, requests in TABLE_4.items():
                vc = cumulative_ratp(mine, *requests)
                graph.add((2, stage, resource), vc, (1, stage))
            for host, h_tasks in _grouped(mine, "host").items():
                beside = [(tt, concurrent(tt, on_host[host])) for tt in h_tasks]
                for resource, requests in TABLE_4.items():
                    for request in requests:
                        deep = (3, stage, request, host)
                        graph.add(deep, cumulative_ratp(h_tasks, request), (2, stage, resource))
                        _add_blame(graph, deep, beside, least[host, request])
    return graph


def concurrent(tt: PaperTask, on_host: Iterable[PaperTask]) -> list[PaperTask]:
    """Return the source tasks of tt: those of other queries that ran on its host beside it.

    Eq. 4 counts "each of the n concurrent tasks", proposition 4.3 and §5.5 those of source queries,
    which §2.3 defines as others: what tt's own query did to it is then unknown.
    """
    return [st for st in on_host if st.query != tt.query and overlap(tt, st) > 0]


def _add_blame(
    graph: PaperGraph,
    deep: Vertex,
    beside: Iterable[tuple[PaperTask, list[PaperTask]]],
    least: float,
) -> None:
    """Add BE vertices of one DE, and their source stages and queries (§5.5, eq. 9).

    Eq. 9 sums over target tasks for one "source task st", while §5.5 makes a vertex per source
    stage: here it sums over both.
    """
    _, stage, request, host = deep
    beta: dict[tuple[Name, Name], float] = {}
    for tt, sources in beside:
        found = [((st.stage, st.query), blame(tt, st, str(request), least)) for st in sources]
        slowed = slowdown(tt.ratp(str(request)), least)
        nobody = unknown_blame(slowed, sum(amount for _, amount in found))
        for source, amount in [*found, ((UNKNOWN, UNKNOWN), nobody)]:
            beta[source] = beta.get(source, 0.0) + amount
    for (source_stage, source_query), vc in beta.items():
        explanation = (4, stage, request, host, source_stage)
        graph.add(explanation, vc, deep)
        graph.add((5, source_stage), 1.0, explanation)
        graph.add((6, source_query), 1.0, (5, source_stage))


def _grouped(tasks: Iterable[PaperTask], by: str) -> dict[Name, list[PaperTask]]:
    groups: dict[Name, list[PaperTask]] = {}
    for task in tasks:
        groups.setdefault(getattr(task, by), []).append(task)
    return groups


def impact_factors(graph: PaperGraph) -> dict[Edge, float]:
    """Return IF_uv = VC_u / Σ VC_w over w in IN(v) (eq. 13, algorithm 1).

    Where nobody contributes to v that is 0 / 0: taken as 0, so DOR towards v's target sums to less.
    """
    found = {}
    for v, parents in graph.parents.items():
        cumulative_impact = sum(graph.contribution[u] for u in parents)
        for u in parents:
            impact = graph.contribution[u] / cumulative_impact if cumulative_impact > 0 else 0.0
            found[u, v] = impact
    return found


Responsibilities: TypeAlias = dict[Vertex, dict[Name, float]]
"""DOR of every vertex towards each target."""


def responsibilities(graph: PaperGraph) -> Responsibilities:
    """Return DOR of every vertex (§6.1, appendix B.2, algorithm 2).

    VC at level 0, above it Σ IF_uv · DOR_v over v in OUT(u): printed as OUT(v). Algorithm 2 stops
    after the level that is asked for.
    """
    impact, dor = impact_factors(graph), defaultdict[Vertex, dict[Name, float]](dict)
    for target in graph.level(0):
        dor[target] = {target[1]: graph.contribution[target]}
    for level in range(6):
        for v in graph.level(level):
            for u in graph.parents[v]:
                for query, amount in dor[v].items():
                    dor[u][query] = dor[u].get(query, 0.0) + impact[u, v] * amount
    return dict(dor)


def top_vertices(
    dor: Responsibilities, k: int, level: int, query: Name
) -> list[tuple[Vertex, float]]:
    """Return a level's k vertices of the highest DOR towards a target (§6.2.1)."""
    of_level = [(u, to[query]) for u, to in dor.items() if u[0] == level and query in to]
    return sorted(of_level, key=lambda one: -one[1])[:k]


_PLACES = {
    1: ("stage",),
    2: ("stage", "resource"),
    3: ("stage", "request", "host"),
    4: ("stage", "request", "host", "source_stage"),
    5: ("source_stage",),
    6: ("source_query",),
}
"""What a vertex of each level names, after its level."""
COLUMNS = (
    *("target", "level", "stage", "resource", "request", "host", "source_stage", "source_query"),
    *("contribution", "dor"),
)


def printed_blame(
    tables: Tables,
    waits: pd.DataFrame,
    targets: Sequence[int],
    top: int,
    *,
    critical_path: bool = False,
) -> pd.DataFrame:
    """Return the ``top`` vertices of every level towards each target, a row each.

    Columns: `target`, `level` 1 to 6, what the vertex names as rows of the tables (−1: nothing, or
    unknown), its `contribution` (VC), and its `dor` towards the target.

    critical_path: whether only stages on the targets' critical paths are looked at.
    """
    stages = np.flatnonzero(tables.stages["critical"]).tolist() if critical_path else None
    graph = build_paper_graph(paper_tasks(tables, waits), targets, stages)
    dor, query_of = responsibilities(graph), tables.stages["query"].tolist()
    rows = [
        _row(vertex, query_of)
        | {"target": target, "contribution": graph.contribution[vertex], "dor": part}
        for target in targets
        for level in range(1, len(LEVELS))
        for vertex, part in top_vertices(dor, top, level, target)
        if part > 0
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def printed_shares(tables: Tables, waits: pd.DataFrame, targets: Sequence[int]) -> Floats:
    """Return DOR of each query (column) towards each query (row); 0 for those not asked for."""
    shares = np.zeros((len(tables.queries),) * 2)
    dor = responsibilities(build_paper_graph(paper_tasks(tables, waits), targets))
    for vertex, towards in dor.items():
        if vertex[0] == len(LEVELS) - 1 and vertex[1] != UNKNOWN:
            for target, part in towards.items():
                shares[int(target), int(vertex[1])] = part
    return shares


def _row(vertex: Vertex, query_of: Sequence[int]) -> dict[str, Any]:
    level = int(vertex[0])
    row: dict[str, Any] = dict.fromkeys(("stage", "host", "source_stage", "source_query"), NONE)
    row |= {"level": level, "resource": "", "request": ""}
    for place, name in zip(_PLACES[level], vertex[1:], strict=True):
        row[place] = NONE if name == UNKNOWN else name
    if row["source_stage"] >= 0:
        row["source_query"] = query_of[row["source_stage"]]
    return row


def paper_tasks(tables: Tables, waits: pd.DataFrame) -> list[PaperTask]:
    """Return the tasks of queries that ran, with waits and data as table 4 counts them.

    No log tells offers of slots: those that tasks of the application took while a task waited
    count. Input is what was read, from shuffles too. Asked memory is the peak of execution memory;
    nothing records how much storage was asked for.
    """
    tasks, in_all = tables.tasks, launch_wait(waits)
    wait = {request: waits[f"{request}_ms"].tolist() for request in DATA}
    wait["slot_wait"] = in_all.tolist()
    data = {
        kind: sum_known(*(tasks[name].to_numpy(np.float64) for name in names)).tolist()
        for kind, names in _BYTES.items()
    }
    data["slots_offered"] = _slots_offered(tasks, in_all)
    cpu = positive_or_zero(tasks["cpu_ms"].to_numpy(np.float64)).tolist()
    names = ("query", "stage", "host", "launch_ms", "finish_ms")
    rows = zip(*(tasks[name].tolist() for name in names), cpu, strict=True)
    return [
        PaperTask(
            *row, *({k: v[at] for k, v in of.items() if 0 <= v[at] < inf} for of in (wait, data))
        )
        for at, row in enumerate(rows)
        if min(row[:3]) >= 0 and -inf < row[3] <= row[4] < inf
    ]


_BYTES = {
    "input_bytes": ("input_bytes", "remote_bytes", "local_bytes"),
    "execution_memory_asked": ("peak_memory_bytes",),
    "remote_bytes_read": ("remote_bytes",),
    "io_bytes_read": ("input_bytes",),
    "io_bytes_written": ("shuffle_write_bytes", "output_bytes", "disk_spilled_bytes"),
}
"""Columns of tasks that make each kind of data."""


def _slots_offered(tasks: pd.DataFrame, waited: Floats) -> list[float]:
    """Return how many tasks of its application were launched while each task waited, with it."""
    app, launch = tasks["app"].tolist(), tasks["launch_ms"].tolist()
    launches: dict[int, list[float]] = {one: [] for one in app}
    for one, at in zip(app, launch, strict=True):
        if isfinite(at):
            launches[one].append(at)
    for of_app in launches.values():
        of_app.sort()
    rows = zip(app, launch, waited.tolist(), strict=True)
    return [
        max(bisect_right(launches[one], at) - bisect_right(launches[one], at - wait), 1)
        for one, at, wait in rows
    ]
