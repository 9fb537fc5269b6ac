"""Finds topics of many logs on Spark, and who is blamed, with the numbers of the local engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from iqcar.causes.stragglers.feature_list import FEATURE_LIST
from iqcar.causes.stragglers.host_features import clock_doubts, sample_doubts
from iqcar.causes.stragglers.straggler_result import labels_of
from iqcar.causes.topics.analyse_job import JobAnalysis
from iqcar.causes.topics.build_topics import topics_from
from iqcar.causes.topics.jobs import Tally, metric_names
from iqcar.causes.topics.topic_result import STRAGGLER_TOPICS, TOPIC_SOURCES, Topics, TopicSettings
from iqcar.enums import QueryBy
from iqcar.fleet import steps
from iqcar.fleet.logs_on_spark import at_one_place, keep, outlined, partitions, read_on_spark
from iqcar.fleet.send_code import Shipped, ship
from iqcar.fleet.session import watched, working_on
from iqcar.fleet.shared_hosts import shared_devices
from iqcar.fleet.steps import LOADS, SOURCES, JobTopics
from iqcar.fleet.transport import FaultsError, objects, run_step
from iqcar.logs.find.locate import locate
from iqcar.logs.find.log_parts import EventLog
from iqcar.logs.merge import without_faulty
from iqcar.model.queries.identify import identify
from iqcar.rules.vocabulary.topics import topic_name
from iqcar.tables import Tables, texts


def topics_on_spark(
    spark: Any,
    paths: str | Path | Sequence[str | Path],
    settings: TopicSettings | None = None,
    *,
    query_by: QueryBy | str = QueryBy.SQL,
    names: str = "",
    progress: Callable[[str, int, int], None] | None = None,
) -> tuple[Tables, Topics | None]:
    """Find what keeps making tasks slow in many logs, reading and learning on Spark.

    Parameters
    ----------
    spark : SparkSession; not of Spark Connect.
    paths : as :func:`iqcar.pipeline.read` takes them. They are looked for here and read on the
        executors: both have to reach them under the same name.
    query_by : what counts as one query.
    names : file with names of topics in the format of ``rules/topics.json``; ours by default.
    progress : called from another thread with what is being done, the Spark tasks done, and those
        in all.

    Returns
    -------
    Tables
        With an ``inputs`` row per log found, applications, hosts, executors, jobs, stages and
        queries; ``tasks`` and what belongs to tasks is empty: it stayed on the executors. A query
        counts no tasks, and its times are those of its jobs and stages.
    Topics or None
        None if no log could be read.

    Raises IqcarError if a URL needs a package that is not installed, or Spark fails. A bug that is
    met in some applications leaves out these, as :func:`iqcar.logs.merge.without_faulty` does.
    """
    found = locate([paths] if isinstance(paths, (str, Path)) else list(paths))
    if not any(isinstance(place, EventLog) for place in found):
        return outlined(found, {}), None
    chosen, query_by = settings or TopicSettings(), QueryBy(query_by)
    with working_on(spark, "iqcar topics"), ExitStack() as held:
        doing = held.enter_context(watched(spark, progress))
        shipped = ship(spark)
        learn = _Learning(
            spark=spark, shipped=shipped, settings=chosen, query_by=query_by, names=names,
            doing=doing, held=held,
        )  # fmt: skip
        doing("reading logs")
        read = keep(read_on_spark(spark, found, shipped, steps.HEAVY, steps.UNUSED), held)
        outlines = dict(objects(read, steps.OUTLINE))
        tables = without_faulty(outlined(found, outlines), partial(identify, query_by=query_by))
        while len(tables.applications):
            try:
                return tables, learn(read, outlines, tables)
            except FaultsError as error:
                tables = error.leave_out_of(tables)
        return tables, None


@dataclass(frozen=True)
class _Learning:
    """Learns topics on Spark from logs that were read."""

    spark: Any
    shipped: Shipped
    settings: TopicSettings
    query_by: QueryBy
    names: str
    doing: Callable[[str], None]
    held: ExitStack

    def __call__(self, read: Any, outlines: Mapping[int, steps.Outline], tables: Tables) -> Topics:
        """Learn from the logs whose applications are in the tables.

        Raises FaultsError if bugs are met in some of them.
        """
        app_of_log = tables.inputs["app"].tolist()
        kept = {log: outline for log, outline in outlines.items() if app_of_log[log] >= 0}
        step = self.shipped.step
        placed = keep(at_one_place(self.spark, read, kept), self.held)
        self.doing("measuring waits")
        jobs_step = step("fleet.steps.jobs_step", self.settings, self.query_by)
        jobs = keep(run_step(placed, jobs_step), self.held)
        told: list[steps.GroupFacts] = [part for _, part in objects(jobs, steps.FACTS)]
        self.doing("learning from stages")
        spread = partitions(self.spark, sum(outline.tasks for outline in kept.values()))
        bundles = jobs.where(jobs["kind"] == steps.JOBS).repartition(spread)
        looked = run_step(bundles, step("fleet.steps.look_step"))
        topics = topics_from(
            _at_rows([look for _, looks in objects(looked, steps.LOOKS) for look in looks], tables),
            metric_names(FEATURE_LIST), self.settings,
            tally=sum((part.tally for part in told), Tally(0, 0, 0)), labels=labels_of(tables),
            doubts=_doubts(tables, told),
        )  # fmt: skip
        self.doing("asking who was in the way")
        named = [topic_name(topics.words_of(n), self.names) for n in range(len(topics.topics))]
        lacks = {topic: name.resource for topic, name in enumerate(named) if name.resource}
        return sources_on_spark(
            placed, self.shipped, topics, lacks=lacks, tables=tables, query_by=self.query_by
        )


def _at_rows(looks: Sequence[JobAnalysis], tables: Tables) -> list[JobAnalysis]:
    """Give each look the rows of its application and query among those of all logs."""
    app = tables.stages["app"].tolist()
    query = tables.stages["query"].tolist()
    return [replace(look, app=app[look.stage], query=query[look.stage]) for look in looks]


def _doubts(tables: Tables, told: Sequence[steps.GroupFacts]) -> tuple[str, ...]:
    """Say of all groups together what the local engine says."""
    offsets = {host: offset for part in told for host, offset in part.offsets.items()}
    hosts = texts(tables.hosts, "host")
    clocks = clock_doubts(tables, np.array([offsets.get(host, 0.0) for host in hosts]))
    untold, sampled = sum(part.untold for part in told), sum(part.sampled for part in told)
    return (*clocks, *sample_doubts(untold, sampled))


def sources_on_spark(
    placed: Any,
    shipped: Shipped,
    found: Topics,
    lacks: Mapping[int, str],
    tables: Tables,
    query_by: QueryBy,
) -> Topics:
    """Find the topic of every straggler, and link those that lack a resource to who is blamed.

    Parameters
    ----------
    placed : DataFrame of Spark; tables of each group of logs.
    lacks : the :class:`iqcar.enums.Resource` that stragglers of a topic lack.
    tables : of all logs, without tasks.

    The result is with sources and stragglers.
    """
    mixture = found.mixtures
    if not len(mixture):
        return found
    stage = found.jobs["stage"].to_numpy(np.int64)
    asked = JobTopics(
        stage=stage[mixture["job"].to_numpy(np.int64)], topic=mixture["topic"].to_numpy(np.int64),
        share=mixture["share"].to_numpy(np.float64), words=found.words, settings=found.settings,
        lacks=dict(lacks),
    )  # fmt: skip
    measured = run_step(placed, shipped.step("fleet.steps.loads_step", query_by))
    known = shared_devices([loads for _, loads in objects(measured, LOADS)])
    answered = run_step(placed, shipped.step("fleet.steps.sources_step", asked, known, query_by))
    parts = [part for _, part in objects(answered, SOURCES)]
    if not parts:
        return found
    row_of = {int(number): row for row, number in enumerate(stage.tolist())}
    blamed = _by_job([part for part, _ in parts], row_of)
    query = np.append(tables.stages["query"].to_numpy(np.int64), -1)
    blamed["query"] = query[blamed["query"].to_numpy(np.int64)]
    slow = _by_job([part for _, part in parts], row_of)
    return replace(
        found,
        sources=TOPIC_SOURCES.frame(
            {name: blamed[name].to_numpy() for name in TOPIC_SOURCES.column_names()}
        ),
        stragglers=STRAGGLER_TOPICS.frame(
            {name: slow[name].to_numpy() for name in STRAGGLER_TOPICS.column_names()}
        ),
    )


def _by_job(parts: Sequence[pd.DataFrame], row_of: Mapping[int, int]) -> pd.DataFrame:
    """Put the answers of all groups together, jobs by their rows instead of their stages."""
    joined = pd.concat(parts, ignore_index=True)
    joined["job"] = [row_of[int(number)] for number in joined["job"].tolist()]
    ordered: pd.DataFrame = joined.iloc[np.argsort(joined["job"].to_numpy(), kind="stable")].copy()
    return ordered
