"""Pairs of sets of simulated runs, before and after a planted change, with the effect it had.

The effect on a query is the time that it takes longer than in the same runs simulated again
without the change: planted effects and those that follow from them, others' waits included.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import numpy as np

from iqcar.enums import QueryBy, Request
from iqcar.logs.merge import merge
from iqcar.model.queries.critical_path import add_critical_path
from iqcar.model.queries.identify import identify
from iqcar.model.waits.columns import wait_column
from iqcar.tables import APPLICATIONS, CONF, JOBS, SQL_EXECUTIONS, STAGE_PARENTS, Tables
from tests.support.cluster_simulator import Simulation
from tests.support.planted_changes import CHANGES, Job, Plant, Step, Workload, nightly
from tests.support.random_tables import frame
from tests.support.simulated_work import QueryPlan

CPU_NOISE, BYTES_NOISE = 0.04, 0.01
"""Standard deviations over runs of the log of a stage's processor time and bytes."""
LATE_MS = 400.0
"""Queries are submitted up to this much later than planned."""
BETWEEN_RUNS_MS = 24 * 3_600_000.0
RUNS = (1, 2, 3, 5, 8)
"""Runs a side, by turns."""


@dataclass(frozen=True)
class Pair:
    """Two sets of runs, and the truth about their difference.

    ``effect_ms`` and ``before_ms`` hold mean durations by name after; ``stage_effect_ms`` by name
    after and label. A query that is new has the effect of its whole duration. ``own_effect_ms`` is
    the part of a query's effect that goes if its own change alone is taken back.
    """

    kind: str
    runs: int
    before: Tables
    after: Tables
    plants: dict[str, Plant]
    effect_ms: dict[str, float]
    own_effect_ms: dict[str, float]
    before_ms: dict[str, float]
    stage_effect_ms: dict[tuple[str, str], float]
    renamed: dict[str, str]


class Variety(NamedTuple):
    """What two clusters can differ in without a change.

    Attributes
    ----------
    hosts : int
    fair : bool
    named : "same", "side" or "run"
        How long hosts keep their names: for ever, on one side, or in one run.
    first_id : int
        Ids of stages, jobs, SQL executions and executors of a run begin there.
    """

    hosts: int = 4
    fair: bool = True
    named: str = "same"
    first_id: int = 0


PLAIN = Variety()


def drawn_variety(seed: int) -> Variety:
    """A cluster of other size, scheduling, names and ids for each seed."""
    rng = np.random.default_rng([seed, 42])
    return Variety(
        int(rng.choice([2, 3, 4, 6])),
        bool(rng.random() < 0.5),
        ("same", "side", "run")[int(rng.integers(3))],
        int(rng.choice([0, 1, 1000, 2_000_000])),
    )


@cache
def pair_of(kind: str, seed: int, runs: int | None = None, variety: Variety = PLAIN) -> Pair:
    """Simulate a pair."""
    place = list(CHANGES).index(kind)
    rng = np.random.default_rng([seed, 15, place])
    n = RUNS[(seed + place) % len(RUNS)] if runs is None else runs
    base = nightly(rng)
    if variety is not PLAIN:
        base = replace(base, cluster=replace(base.cluster, hosts=variety.hosts, fair=variety.fair))
    if kind == "slow host" and variety.named == "run":
        variety = variety._replace(named="side")  # else no host is slow in two runs
    changed = CHANGES[kind](base, rng)
    changed = replace(changed, plants=_named_plants(changed.plants, variety, n))
    nights = [(seed, place, night) for night in range(2 * n)]
    before = [Night(base, night) for night in nights[:n]]
    after = [Night(changed, night) for night in nights[n:]]
    without = [Night(base, night) for night in nights[n:]]
    took, would = durations(after), durations(without)
    own = {
        name: took[name]
        - durations([Night(changed.taken_back(name, base), night) for night in nights[n:]])[name]
        for name in changed.plants
        if name in would and len(changed.plants) > 1
    }
    stages, stages_would = _stage_times(after), _stage_times(without)
    new = changed.renamed
    return Pair(
        kind,
        n,
        side_of(before, {}, variety, 0),
        side_of(after, new, variety, n),
        {new.get(name, name): plant for name, plant in changed.plants.items()},
        {new.get(q, q): took[q] - would.get(q, 0.0) for q in took},
        own,
        {new.get(q, q): value for q, value in durations(before).items()},
        {(new.get(q, q), s): v - stages_would.get((q, s), 0.0) for (q, s), v in stages.items()},
        {name: new.get(name, name) for name in base.names()},
    )


class Night:
    """One run of a workload."""

    def __init__(self, work: Workload, seed: tuple[int, ...]) -> None:
        self.work, self.seed = work, seed
        self.jobs = [_tonight(job, number, seed) for number, job in enumerate(work.jobs)]
        plans = [
            QueryPlan(j.name, tuple(s.plan for s in j.steps), j.app, j.submit) for j in self.jobs
        ]
        self.simulation = Simulation(work.cluster, plans, 0)


def _tonight(job: Job, number: int, seed: tuple[int, ...]) -> Job:
    """The job with this run's noise, which is the same whatever changed elsewhere."""
    own = (*seed, number)
    late = np.random.default_rng(own).uniform(0, LATE_MS)
    steps = []
    for step in job.steps:
        rng = np.random.default_rng((*own, *step.label.encode()))
        cpu, size = np.exp(rng.standard_normal(2) * (CPU_NOISE, BYTES_NOISE))
        steps.append(step.scaled(cpu=cpu, read=size, fetch=size, write=size))
    return replace(job, steps=tuple(steps), submit=job.submit + late)


def durations(nights: Sequence[Night]) -> dict[str, float]:
    """Mean duration of each query over the runs, its instances in a run averaged first."""
    by_name: dict[str, list[float]] = {}
    for night in nights:
        for query, job in enumerate(night.jobs):
            by_name.setdefault(job.name, []).append(night.simulation.ended[query] - job.submit)
    return {name: float(np.mean(took)) for name, took in by_name.items()}


def _stage_times(nights: Sequence[Night]) -> dict[tuple[str, str], float]:
    """Mean time from submission to completion of each stage."""
    found: dict[tuple[str, str], list[float]] = {}
    for night in nights:
        run = night.simulation
        for (query, stage), end in run.stage_end.items():
            job = night.jobs[query]
            key = (job.name, job.steps[stage].label)
            found.setdefault(key, []).append(end - run.stage_start[(query, stage)])
    return {key: float(np.mean(took)) for key, took in found.items()}


def _host_name(host: int, run: int, first_run: int, named: str) -> str:
    """Name of a host in a run of a side that begins with a run."""
    prefix = {"same": "", "side": f"s{first_run}-", "run": f"r{run}-"}[named]
    return f"{prefix}host-{host}"


def _named_plants(plants: dict[str, Plant], variety: Variety, first_run: int) -> dict[str, Plant]:
    """Plants whose causes name hosts as they are called after the change."""
    old = f"host:host-{variety.hosts - 1}"
    new = f"host:{_host_name(variety.hosts - 1, first_run, first_run, variety.named)}"
    return {query: plant.with_cause(old, new) for query, plant in plants.items()}


def side_of(
    nights: Sequence[Night], renamed: dict[str, str], variety: Variety, first_run: int
) -> Tables:
    """The tables of some runs as the reader returns them for plain logs."""
    tables = raw_side(nights, renamed, variety, first_run)
    return add_critical_path(identify(tables, QueryBy.SQL))


def raw_side(
    nights: Sequence[Night], renamed: dict[str, str], variety: Variety, first_run: int
) -> Tables:
    """The same before jobs are grouped into queries."""
    runs = []
    for number, night in enumerate(nights):
        tables = _emitted(night, number, renamed)
        names = [
            _host_name(host, first_run + number, first_run, variety.named)
            for host in range(len(tables.hosts))
        ]
        first = variety.first_id * (1 + number)
        runs.append(
            tables.with_(
                hosts=tables.hosts.assign(host=names),
                stages=tables.stages.assign(stage_id=tables.stages["stage_id"] + first),
                jobs=tables.jobs.assign(job_id=tables.jobs["job_id"] + first),
                tasks=tables.tasks.assign(task_id=tables.tasks["task_id"] + first),
            )
        )
    return merge(runs)


def _emitted(night: Night, number: int, renamed: dict[str, str]) -> Tables:
    """The tables of one run: metrics as Spark reports them, and what its plans say."""
    run, jobs = night.simulation, night.jobs
    tables, waits = run.emit(plain=True)
    shift = number * BETWEEN_RUNS_MS
    keys = sorted(run.stage_end)
    steps: list[Step] = [jobs[q].steps[s] for q, s in keys]
    apps, n = run.cluster.apps, len(jobs)
    starts = tables.queries["start_ms"].to_numpy() + shift
    ends = tables.queries["end_ms"].to_numpy() + shift
    of_app = np.array([job.app for job in jobs])
    tasks, stages = tables.tasks, tables.stages
    stage = tasks["stage"].to_numpy()
    first = np.full(len(stages), np.inf)
    launch = tasks["launch_ms"].to_numpy() + shift
    finish = tasks["finish_ms"].to_numpy() + shift
    np.minimum.at(first, stage, launch)
    spill = np.array([step.spill for step in steps])[stage]
    written = tasks["shuffle_write_bytes"].to_numpy()
    zero = np.zeros(len(tasks))
    order = np.argsort(stage, kind="stable")
    index = np.empty(len(tasks), np.int64)
    index[order] = np.arange(len(tasks)) - np.searchsorted(stage[order], stage[order])
    tasks = tasks.assign(
        launch_ms=launch, finish_ms=finish, run_ms=finish - launch,
        task_id=np.arange(len(tasks)), index=index.astype(np.int32),
        attempt=np.zeros(len(tasks), np.int32),
        cpu_ms=waits["compute_ms"].to_numpy(), gc_ms=waits["gc_ms"].to_numpy(),
        deserialize_ms=zero, deserialize_cpu_ms=zero, result_serialize_ms=zero,
        getting_result_ms=zero,
        fetch_wait_ms=waits[wait_column(Request.SHUFFLE_FETCH)].to_numpy(),
        shuffle_write_ms=waits[wait_column(Request.IO_WRITE)].to_numpy(),
        scan_ms=waits[wait_column(Request.IO_READ)].to_numpy(),
        disk_spilled_bytes=np.minimum(spill, written), memory_spilled_bytes=2 * spill,
        shuffle_write_bytes=np.maximum(written - spill, 0.0),
        input_records=tasks["input_bytes"].to_numpy() / 100,
        status=tasks["status"].cat.set_categories(["success"]).fillna("success"),
    )  # fmt: skip
    label = [step.label for step in steps]
    stages = stages.assign(
        stage_id=[100 * q + s for q, s in keys],
        attempt=0,
        name="save at Nightly.scala:42",
        job=[q for q, _ in keys],
        query=-1,
        declared_tasks=[step.plan.tasks for step in steps],
        first_launch_ms=first,
        completed=True,
        label=label,
        operators=[step.operators for step in steps],
        submission_ms=stages["submission_ms"].to_numpy() + shift,
        completion_ms=stages["completion_ms"].to_numpy() + shift,
    )
    plan = ["; ".join(sorted(step.label for step in job.steps)) for job in jobs]
    scanned = [
        sorted(
            word
            for step in job.steps
            for word in step.label.split("Scan parquet ")[1:]
            for word in [word.split(";")[0]]
        )
        for job in jobs
    ]
    settings = {**night.work.conf, "spark.driver.port": str(40_000 + sum(night.seed))}
    names = [renamed.get(job.name, job.name) for job in jobs]
    row_of = {key: row for row, key in enumerate(keys)}
    edges = [
        (row_of[q, s], row_of[q, p])
        for q, s in keys
        for p in jobs[q].steps[s].plan.parents
    ]  # fmt: skip
    return tables.with_(
        applications=frame(
            APPLICATIONS, apps, task_cpus=np.ones(apps),
            application_id=[f"app-{night.seed[-1]}-{a}" for a in range(apps)],
            name=[f"nightly-{a}" for a in range(apps)], spark_version=["3.5.3"] * apps,
            start_ms=np.full(apps, starts.min()), end_ms=np.full(apps, ends.max()),
            ended=[True] * apps,
            most_slots=np.full(apps, float(run.cluster.slots * run.cluster.hosts)),
        ),
        queries=Tables.empty().queries,
        sql_executions=frame(
            SQL_EXECUTIONS, n, app=of_app, execution_id=np.arange(n),
            root_execution_id=np.arange(n), description=names, user_named=[True] * n,
            plan_hash=[str(hash(p)) for p in plan], start_ms=starts, end_ms=ends,
            operators=plan, tables=["; ".join(t) for t in scanned],
        ),
        jobs=frame(
            JOBS, n, app=of_app, job_id=np.arange(n), sql_execution=np.arange(n),
            description=names, submission_ms=starts, completion_ms=ends, succeeded=[True] * n,
        ),
        stages=stages,
        conf=frame(
            CONF, apps * len(settings), app=np.repeat(np.arange(apps), len(settings)),
            key=list(settings) * apps, value=list(settings.values()) * apps,
        ),
        stage_parents=frame(
            STAGE_PARENTS, len(edges), stage=[s for s, _ in edges], parent=[p for _, p in edges]
        ),
        tasks=tasks,
    )  # fmt: skip
