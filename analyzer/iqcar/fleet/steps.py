"""Runs steps on executors: each takes batches of rows and gives frames of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd

from iqcar.causes.blame.attribute import attribute
from iqcar.causes.stragglers.features import build_features
from iqcar.causes.stragglers.host_features import clock_offsets, untold_tasks
from iqcar.causes.stragglers.straggler_settings import StragglerSettings
from iqcar.causes.topics.analyse_job import analyse_job
from iqcar.causes.topics.jobs import Jobs, Tally
from iqcar.causes.topics.topic_of_straggler import blamed_for, straggler_topics
from iqcar.causes.topics.topic_result import Topics, TopicSettings
from iqcar.enums import QueryBy
from iqcar.fleet.packing import bundles
from iqcar.fleet.shared_hosts import HostLoads, SharedDevices
from iqcar.fleet.transport import FAULTS, faults_of, pack_row, rows_of, unpack, unpack_row
from iqcar.logs.find.log_parts import EventLog
from iqcar.logs.ingest import ingest
from iqcar.logs.merge import Columns, columns_of, leave_out, merge_columns, row_count
from iqcar.model.queries.identify import identify
from iqcar.model.waits.measure import measure_waits
from iqcar.tables import Tables, texts
from iqcar.tables.arrays import Floats, Ints

OUTLINE, TABLES, FACTS, JOBS, LOOKS = "outline", "tables", "facts", "jobs", "looks"
LOADS, SOURCES = "loads", "sources"
"""Kinds of rows."""
HEAVY = (
    "tasks", "sql_metrics", "task_records", "intervals", "lock_owners", "samples",
    "stage_parents", "conf",
)  # fmt: skip
"""Tables that grow with tasks, or of hundreds of rows each: they stay on the executors."""
UNUSED = ("sql_metrics", "conf")
"""Tables that no step of topics needs."""


@dataclass(frozen=True)
class Outline:
    """What the driver gets to know of a log: all but its tasks, and how many these are."""

    columns: Columns
    tasks: int


@dataclass(frozen=True)
class GroupFacts:
    """What a group of logs tells beside its jobs.

    Attributes
    ----------
    jobs : how many there are
    offsets : offset of each host's clock in ms, by name
    untold, sampled : tasks on sampled hosts that no sample tells about, and all of these
    """

    tally: Tally
    jobs: int
    offsets: dict[str, float]
    untold: int
    sampled: int


@dataclass(frozen=True)
class Group:
    """Logs that are looked at together.

    Attributes
    ----------
    tables : with queries identified.
    stages : ndarray of shape (n_stages,); row of each stage of the tables among the stages of all
        logs.
    logs : ndarray of shape (n_applications,); number of each application's log.
    """

    number: int
    tables: Tables
    stages: Ints
    logs: Ints

    def alone(self) -> Iterator[tuple[int, Group]]:
        """Number of each log, and the group with its application only."""
        stage_app = self.tables.stages["app"].to_numpy(np.int64)
        for app, log in enumerate(self.logs.tolist()):
            others = {other: "" for other in range(len(self.logs)) if other != app}
            stages = self.stages[stage_app == app]
            yield log, Group(self.number, leave_out(self.tables, others), stages, self.logs[[app]])


def read_step(
    shares: Sequence[Sequence[tuple[int, EventLog]]],
    heavy: Sequence[str],
    unused: Sequence[str],
    batches: Iterator[pd.DataFrame],
) -> Iterator[pd.DataFrame]:
    """Read the logs of each task: an outline for the driver, and the tables for later steps.

    Outlines have no rows of heavy tables; what later steps get has none of unused ones.
    """
    for batch in batches:
        for share in batch["id"].tolist():
            for number, log in shares[share]:
                columns = columns_of(ingest(log))
                light = {name: columns[name] for name in columns if name not in heavy}
                outline = Outline(light, row_count(columns, "tasks"))
                yield from rows_of(number, OUTLINE, outline)
                if row_count(columns, "applications"):
                    used = {name: columns[name] for name in columns if name not in unused}
                    yield from rows_of(number, TABLES, used)


def jobs_step(
    settings: TopicSettings, query_by: QueryBy, batches: Iterator[pd.DataFrame]
) -> Iterator[pd.DataFrame]:
    """Measure features of each group of logs, and find the jobs in it."""
    return _each_group(query_by, batches, partial(_jobs_of_group, settings))


def _jobs_of_group(settings: TopicSettings, group: Group) -> Iterator[pd.DataFrame]:
    tables = group.tables
    features = build_features(tables, measure_waits(tables), StragglerSettings().edge_ms)
    jobs = Jobs.from_tasks(features, settings)
    offsets = zip(texts(tables.hosts, "host"), clock_offsets(tables).tolist(), strict=True)
    untold, sampled = untold_tasks(tables, features.column("host_cpu"))
    told = GroupFacts(jobs.tally, len(jobs), dict(offsets), untold, sampled)
    yield from rows_of(group.number, FACTS, told)
    placed = replace(jobs, stage=group.stages[jobs.stage], app=group.logs[jobs.app])
    for bundle in bundles(placed):
        yield pack_row(int(bundle.stage[0]), JOBS, bundle)


def look_step(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """Look at each bundle of jobs; the ``app`` of a job is the number of its log."""
    for batch in batches:
        for number, content in batch[["log", "content"]].itertuples(index=False):
            jobs: Jobs = unpack_row(content)
            try:
                yield from rows_of(number, LOOKS, [analyse_job(job) for job in jobs])
            except Exception:
                faults = faults_of(((job.app, job) for job in jobs), analyse_job)
                if not faults:
                    raise
                yield from rows_of(number, FAULTS, faults)


@dataclass(frozen=True)
class JobTopics:
    """Jobs that have topics, and these.

    Attributes
    ----------
    stage : row of the job's stage among the stages of all logs, once per topic of it
    topic : the topic
    share : its share of the job's mixture
    words : rows of :data:`iqcar.causes.topics.topic_result.TOPIC_WORDS`
    lacks : resource of each topic that is a lack of one
    """

    stage: Ints
    topic: Ints
    share: Floats
    words: pd.DataFrame
    settings: TopicSettings
    lacks: dict[int, str]


class _GroupTopics(NamedTuple):
    """The part of topics that tells which jobs of a group are asked about."""

    jobs: pd.DataFrame
    mixtures: pd.DataFrame
    words: pd.DataFrame
    settings: TopicSettings
    stragglers: pd.DataFrame


def loads_step(query_by: QueryBy, batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """Send what each group's tasks did in devices, which are estimated from all groups."""
    return _each_group(query_by, batches, _loads_of_group)


def _loads_of_group(group: Group) -> Iterator[pd.DataFrame]:
    loads = HostLoads.from_tasks(group.tables, measure_waits(group.tables))
    yield from rows_of(group.number, LOADS, loads)


def sources_step(
    asked: JobTopics, known: SharedDevices, query_by: QueryBy, batches: Iterator[pd.DataFrame]
) -> Iterator[pd.DataFrame]:
    """Find the topic of every straggler, and the queries blamed for what its job lacks.

    ``job`` of what is sent is the stage of the job, ``query`` a stage of the query, both among the
    stages of all logs; ``task`` is −1: tasks stay here.
    """
    return _each_group(query_by, batches, partial(_sources_of_group, asked, known))


def _sources_of_group(
    asked: JobTopics, known: SharedDevices, group: Group
) -> Iterator[pd.DataFrame]:
    tables, here = group.tables, np.isin(asked.stage, group.stages)
    if not here.any():
        return
    stage, job = np.unique(asked.stage[here], return_inverse=True)
    found = _GroupTopics(
        pd.DataFrame({"stage": np.searchsorted(group.stages, stage)}),
        pd.DataFrame({"job": job, "topic": asked.topic[here], "share": asked.share[here]}),
        asked.words,
        asked.settings,
        pd.DataFrame(),
    )
    waits = measure_waits(tables)
    features = build_features(tables, waits, StragglerSettings().edge_ms)
    found = found._replace(stragglers=straggler_topics(cast("Topics", found), features))
    blame = attribute(tables, waits, devices=known.of_hosts(texts(tables.hosts, "host")))
    blamed = blamed_for(cast("Topics", found), asked.lacks, tables, blame)
    query = np.append(np.zeros(len(tables.queries), np.int64), -1)
    query[tables.stages["query"].to_numpy(np.int64)] = group.stages
    query[-1] = -1
    blamed = blamed.assign(
        job=stage[blamed["job"].to_numpy(np.int64)], query=query[blamed["query"].to_numpy(np.int64)]
    )
    slow = found.stragglers
    slow = slow.assign(job=stage[slow["job"].to_numpy(np.int64)], task=-1)
    yield from rows_of(group.number, SOURCES, (blamed, slow))


def _each_group(
    query_by: QueryBy,
    batches: Iterator[pd.DataFrame],
    work: Callable[[Group], Iterator[pd.DataFrame]],
) -> Iterator[pd.DataFrame]:
    """Do some work on each group; where a bug is met, name the applications that show it alone."""
    for group in groups(query_by, batches):
        try:
            yield from work(group)
        except Exception:
            faults = faults_of(group.alone(), lambda alone: list(work(alone)))
            if not faults:
                raise
            yield from rows_of(group.number, FAULTS, faults)


def groups(query_by: QueryBy, batches: Iterator[pd.DataFrame]) -> Iterator[Group]:
    """Put the tables of each group together; its rows follow one another, in the order of logs."""
    rows = (row for batch in batches for row in batch.itertuples(index=False))
    for number, members in groupby(rows, key=lambda row: row.group):
        parts, stages, logs = [], [], []
        for log, pieces in groupby(members, key=lambda row: row.log):
            several: list[Any] = list(pieces)
            part = unpack(row.content for row in several)
            parts.append(part)
            stages.append(int(several[0].first_stage) + np.arange(row_count(part, "stages")))
            logs.append(int(log))
        tables = identify(merge_columns(parts), query_by)
        yield Group(int(number), tables, np.concatenate(stages), np.array(logs, np.int64))
