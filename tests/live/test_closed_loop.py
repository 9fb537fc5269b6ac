"""The loop on simulated clusters: relief comes, stays, goes with its reason, and never swings."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from iqcar.causes.blame.attribute import attribute
from iqcar.causes.graph.iqc_graph import build_graph
from iqcar.live.apply_rules import Applied, RuleApplier, predicted_rules
from iqcar.live.rule_loop import Action, Limits, RuleWriter
from iqcar.model.waits.measure import measure_waits
from iqcar.rules.compile_pools import load_rules_file
from iqcar.rules.propose_rules import propose
from iqcar.rules.rule import PoolPlan
from iqcar.tables import Tables
from tests.support.naive_replay import ExecutorPlan, JobPlan, Problem, QueryPlan, StagePlan
from tests.support.naive_replay import _Simulator as Simulator
from tests.support.tiny_tables import tiny_tables

WINDOW_MS, STEP_MS = 10_000.0, 5_000.0


def query(start: float, tasks: Sequence[float]) -> QueryPlan:
    """A query of one job with one stage of these tasks."""
    job = JobPlan(5.0, (StagePlan(tuple((float(ms),) for ms in tasks)),), 5.0)
    return QueryPlan(float(start), (job,))


class LiveCluster(Simulator):
    """Runs queries by name, in the pools that the rules give them."""

    def __init__(self, queries: Sequence[tuple[str, QueryPlan]], slots: int) -> None:
        self.names = [name for name, _ in queries]
        plans = tuple(plan for _, plan in queries)
        problem = Problem(plans, (ExecutorPlan(0.0, slots),), mode="FAIR")
        super().__init__(problem, problem)
        self.pool_of: dict[str, str] = {}
        self.ran_in: dict[tuple[int, int], str] = {}
        self.now = 0.0
        self.at(0.0, self.add, 0)
        for number, plan in enumerate(plans):
            self.at(plan.start, self.next_job, number, 0)

    def advance(self, until: float) -> None:
        """Run until some time."""
        while self.events and self.events[0][0] <= until:
            self.now, _, what, args = heapq.heappop(self.events)
            what(*args)

    def apply(self, plan: PoolPlan) -> None:
        """Take pools and assignments over at once, also for jobs that run, as the plugin does."""
        self.pool_of = {one.fingerprint: one.pool for one in reversed(plan.assignments)}
        self.shares = replace(self.shares, pools=plan.pools)
        for query in {query for query, _ in self.ran_in}:
            self._place(query)

    def submit_job(self, query: int, number: int) -> None:
        self.ran_in[query, number] = self._place(query)
        super().submit_job(query, number)

    def _place(self, query: int) -> str:
        """Put a query into its pool; the pool's name."""
        pool = self.pool_of.get(f"name:{self.names[query]}", "")
        queries = list(self.shares.queries)
        queries[query] = replace(queries[query], pool=pool)
        self.shares = replace(self.shares, queries=tuple(queries))
        return pool

    def tables(self, start: float, end: float) -> Tables:
        """What a log would say at some time of what did not end before the window."""
        done = self.out.query_end
        began = {key[0]: times[0] for key, times in sorted(self.out.job_times.items())[::-1]}
        shown = [q for q in sorted(began) if done.get(q, np.inf) >= start]
        row = {q: number for number, q in enumerate(shown)}
        jobs = [key for key in sorted(self.out.job_times) if key[0] in row]
        job_row = {key: number for number, key in enumerate(jobs)}
        sets = [t for t in self.out.sets if (t.query, t.job) in job_row]
        set_row = {id(t): number for number, t in enumerate(sets)}
        tasks, seen = [], {}
        for number, ran in enumerate(self.out.tasks):
            stage = set_row.get(id(ran.task_set))
            if stage is None:
                continue
            seen.setdefault(stage, ran.launch)
            running = ran.finish > end
            tasks.append(
                {
                    "stage": stage,
                    "query": row[ran.task_set.query],
                    "executor": 0,
                    "task_id": number,
                    "index": ran.index,
                    "launch_ms": ran.launch,
                    "finish_ms": end if running else ran.finish,
                    "status": "running" if running else "success",
                }
            )
        for t in sets:
            for index, _ in t.pending:
                tasks.append(
                    {
                        "stage": set_row[id(t)],
                        "query": row[t.query],
                        "executor": 0,
                        "task_id": 10**6 + len(tasks),
                        "index": index,
                        "launch_ms": end,
                        "finish_ms": end,
                        "status": "waiting",
                    }
                )
        pools = [
            {
                "time_ms": 0.0,
                "name": pool.name,
                "mode": pool.mode,
                "weight": float(pool.weight),
                "min_share": float(pool.min_share),
            }
            for pool in self.shares.pools
        ]
        counts = np.bincount([t["query"] for t in tasks], minlength=len(shown))
        return tiny_tables(
            applications=[{"scheduler_mode": "FAIR", "task_cpus": 1.0}],
            executors=[
                {
                    "executor_id": "0",
                    "cores": float(self.problem.executors[0].cores),
                    "added_ms": 0.0,
                    "removed_ms": np.nan,
                }
            ],
            queries=[
                {
                    "query_id": f"app-1/sql-{q}",
                    "name": self.names[q],
                    "fingerprint": f"name:{self.names[q]}",
                    "start_ms": began[q],
                    "end_ms": done.get(q, end),
                    "duration_ms": done.get(q, end) - began[q],
                    "ended": q in done,
                    "tasks": int(counts[row[q]]),
                }
                for q in shown
            ],
            jobs=[
                {
                    "job_id": self.out.job_ids[key],
                    "query": row[key[0]],
                    "pool": self.ran_in[key],
                    "submission_ms": self.out.job_times[key][0],
                    "completion_ms": (*self.out.job_times[key], np.nan)[1],
                }
                for key in jobs
            ],
            stages=[
                {
                    "stage_id": t.stage_id,
                    "job": job_row[t.query, t.job],
                    "query": row[t.query],
                    "pool": self.ran_in[t.query, t.job],
                    "submission_ms": t.submitted,
                    "first_launch_ms": seen.get(set_row[id(t)], np.nan),
                    "completion_ms": t.ended if not t.left else end,
                    "completed": not t.left,
                }
                for t in sets
            ],
            tasks=tasks,
            pools=pools,
        )


@dataclass
class Story:
    """What a loop did: changes with the end of their window, and how long each run took."""

    changes: list[tuple[float, str, str]] = field(default_factory=list)
    took_ms: list[tuple[str, float, float]] = field(default_factory=list)
    """Name, start and duration of each query."""
    most_rules: int = 0

    def of(self, action: Action, name: str = "") -> list[float]:
        """When something was done, about a query or any."""
        wanted = (action.value, name)
        return [at for at, *what in self.changes if what[0] == wanted[0] and name in ("", what[1])]

    def mean_ms(self, name: str, start: float, end: float) -> float:
        """Mean duration of the runs of a query that began within some time."""
        took = [ms for one, at, ms in self.took_ms if one == name and start <= at < end]
        return float(np.mean(took))


def live(
    queries: Sequence[tuple[str, QueryPlan]],
    folder: Path,
    until: float,
    *,
    slots: int = 4,
    limits: Limits | None = None,
    act: bool = True,
) -> Story:
    """Run queries; each window goes through the analysis and the loop into the rules file."""
    cluster, story = LiveCluster(queries, slots), Story()
    file = folder / "rules.json"
    loop = RuleApplier(RuleWriter(str(file)), limits or Limits())
    loop.start(0.0)
    end = STEP_MS
    while act and end <= until:
        cluster.advance(end)
        start = max(end - WINDOW_MS, 0.0)
        tables = cluster.tables(start, end)
        done = window(loop, tables, start, end)
        story.changes += [(end, c.action.value, c.rule.query_name) for c in done.changes]
        story.most_rules = max(story.most_rules, len(done.rules))
        if any(c.action is not Action.REFUSE for c in done.changes):
            cluster.apply(load_rules_file(file).plan or PoolPlan())
        end += STEP_MS
    cluster.advance(float("inf"))
    starts = {key[0]: t[0] for key, t in cluster.out.job_times.items() if key[1] == 0}
    story.took_ms = [
        (cluster.names[q], starts[q], cluster.out.query_end[q] - starts[q]) for q in sorted(starts)
    ]
    return story


def window(loop: RuleApplier, tables: Tables, start: float, end: float) -> Applied:
    """Analyse one window as `iqcar live` does, as far as rules are concerned."""
    waits = measure_waits(tables)
    graph = build_graph(tables, attribute(tables, waits), targets=None)
    rules = predicted_rules(tables, graph, propose(tables, graph), loop.acting())
    return loop.window(tables, rules, start, end, end)


pytestmark = pytest.mark.slow

SECOND = 1000.0


def reports(until: float, every: float, rng: np.random.Generator):
    """Short queries of four tasks that come all the time, with noise in when and how long."""
    at = 0.0
    while at < until:
        yield "report", query(round(at), np.round(rng.uniform(200, 400, 4)))
        at += every * rng.uniform(0.8, 1.2)


def etl(start: float, end: float, rng: np.random.Generator):
    """An intruder: a run of twelve tasks of about a second every four seconds."""
    for at in np.arange(start, end, 4 * SECOND):
        yield "etl", query(float(at), np.round(rng.uniform(800, 1200, 12)))


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 1])
def test_an_intruder_that_comes_and_goes_is_held_back_without_oscillation(
    tmp_path: Path, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    comes, goes, again = 30 * SECOND, 90 * SECOND, 180 * SECOND
    queries = [
        *reports(240 * SECOND, 2 * SECOND, rng),
        *etl(comes, goes, rng),
        *etl(again, 240 * SECOND, rng),
    ]
    queries.sort(key=lambda one: one[1].start)
    (tmp_path / "loop").mkdir()
    story = live(queries, tmp_path / "loop", 280 * SECOND)
    alone = live(queries, tmp_path, 0.0, act=False)
    written = story.of(Action.WRITE)
    assert written and comes < written[0] <= comes + 6 * STEP_MS
    late = (written[0] + 2 * STEP_MS, goes)
    assert story.mean_ms("report", *late) < 0.6 * alone.mean_ms("report", *late)
    # Each rule is written at most once for each visit, and taken back only between them.
    for name in {what for _, _, what in story.changes}:
        assert len(story.of(Action.WRITE, name)) <= 2
    assert all(goes < at for at in story.of(Action.TAKE_BACK))


@pytest.mark.long
def test_changing_load_does_not_make_rules_swing(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    queries = [
        *reports(100 * SECOND, 2 * SECOND, rng),
        *((n, q) for n, q in reports(200 * SECOND, 4 * SECOND, rng) if q.start > 100 * SECOND),
        *etl(10 * SECOND, 200 * SECOND, rng),
    ]
    queries.sort(key=lambda one: one[1].start)
    story = live(queries, tmp_path, 200 * SECOND)
    assert story.of(Action.WRITE) and not story.of(Action.TAKE_BACK)


def test_a_quiet_cluster_gets_no_rule(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    queries = [
        *reports(150 * SECOND, 2 * SECOND, rng),
        *(("nightly", query(at, [900.0])) for at in np.arange(0.0, 150 * SECOND, 7 * SECOND)),
    ]
    queries.sort(key=lambda one: one[1].start)
    story = live(queries, tmp_path, 150 * SECOND, slots=16)
    assert story.changes == []


@pytest.mark.long
def test_limits_hold_in_a_storm_of_intruders(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    queries = [*reports(150 * SECOND, 2 * SECOND, rng)]
    for number in range(4):
        start = (10 + 10 * number) * SECOND
        queries += [(f"{n}{number}", q) for n, q in etl(start, start + 60 * SECOND, rng)]
    queries.sort(key=lambda one: one[1].start)
    limits = Limits(wins=2, of_windows=4, max_rules=1, max_changes_per_hour=4)
    story = live(queries, tmp_path, 150 * SECOND, limits=limits)
    done = [what for _, what, _ in story.changes if what != Action.REFUSE.value]
    assert story.most_rules == 1 and 1 <= len(done) <= 4


def test_an_intruder_behind_which_nobody_ends_is_seen(tmp_path: Path) -> None:
    """First in, first out behind one run of a minute: no victim ends in any window."""
    rng = np.random.default_rng(6)
    queries = [*reports(60 * SECOND, 2 * SECOND, rng), ("etl", query(10 * SECOND, [1000.0] * 240))]
    queries.sort(key=lambda one: one[1].start)
    story = live(queries, tmp_path, 60 * SECOND)
    assert story.of(Action.WRITE)[0] <= 10 * SECOND + 6 * STEP_MS
