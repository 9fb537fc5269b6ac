"""``iqcar topics``: find causes of slow tasks that recur across stages and queries."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from iqcar.apps.cli import options
from iqcar.apps.cli.command import Result, command
from iqcar.enums import QueryBy, TopicMethod

if TYPE_CHECKING:
    from iqcar.causes.topics.topic_result import Topics, TopicSettings
    from iqcar.lab.traces.trace_columns import TraceColumns
    from iqcar.papers.hound import PrintedHound
    from iqcar.tables import Tables


@command("What keeps making tasks slow.")
def topics(
    paths: list[str] | None = None,
    *,
    trace: list[str] | None = None,
    columns: str = "",
    settings: str = "",
    method: TopicMethod = TopicMethod.STRAGGLERS,
    names: str = "",
    json: str | None = None,
    top: int = 10,
    query_by: QueryBy = QueryBy.SQL,
    samples: list[str] | None = None,
    on_spark: bool = False,
    master: str = "",
) -> Result:
    """Find what keeps making tasks slow: causes of stragglers that recur in many stages.

    Metrics that stand out together in the stragglers of many stages are a topic, if they follow
    the tasks' durations too (after Hound). Every stage and query gets its mixture of topics. The
    more applications, the more there is to learn from.

    Example: iqcar topics spark-events/ --json topics.json

    For many logs: iqcar topics s3a://logs/ --on-spark --master spark://host:7077

    Parameters
    ----------
    paths : [PATH]...
        Event logs of one or many applications, as for `iqcar analyze`. Can be left out if there is
        a --trace.
    settings : NAME=VALUE,…
        Thresholds (docs/topics.md), e.g. coverage=0.02,least_tasks=10.
    method
        How it is decided what recurs.
    names : FILE
        Your own names of topics, in the format of rules/topics.json.
    json : FILE|-
        Write topics and all mixtures as JSON.
    top : 1..1000
        How many stages and queries to show.
    on_spark
        Read the logs, or the traces if they are Parquet, and look at their stages on Spark: on the
        active session or the application of spark-submit, else on --master. The result is the same.
    """
    from iqcar.causes.topics.topic_result import TopicSettings
    from iqcar.errors import UsageError
    from iqcar.lab.traces.trace_columns import TraceColumns
    from iqcar.rules.vocabulary.topics import topic_vocabulary
    from iqcar.show.json.analyze import topics_to_json
    from iqcar.show.terminal.topics import print_printed_topics, print_topics

    chosen = TopicSettings.parse(settings)
    named = TraceColumns.parse(columns)
    topic_vocabulary(names)
    options.need_logs_or_traces(paths, trace)
    if on_spark and samples:
        raise UsageError("cannot be joined on Spark", "--samples", "leave out one of the two")
    options.check_master(master, on_spark)
    as_printed = method is TopicMethod.PRINTED
    if as_printed and (on_spark or settings):
        raise UsageError(
            "looks at jobs here, with its own thresholds", "--method printed",
            "leave --on-spark and --settings out",
        )  # fmt: skip
    find = partial(_on_spark, master) if on_spark else partial(_here, samples)
    tables, found = find(
        paths or [], trace or [], columns=named, settings=chosen, query_by=query_by, names=names
    )

    printed = None
    if as_printed:
        printed = _as_printed(tables, trace or [], columns=named)

    def show() -> None:
        for number, one in enumerate(found):
            if printed is not None:
                print_printed_topics(one.labels, *printed[number], top=top, names=names)
            else:
                print_topics(one, top, names)

    content = partial(topics_to_json, tables, found, names, printed)
    return Result(show, content, tables=[] if tables is None else [tables])


def _here(
    samples: list[str] | None,
    paths: list[str],
    traces: list[str],
    columns: TraceColumns,
    settings: TopicSettings,
    query_by: QueryBy,
    names: str,
) -> tuple[Tables | None, list[Topics]]:
    """Read the logs and find topics in this process."""
    from iqcar.apps.cli.reading import FIRST, counting, read_for
    from iqcar.lab.traces.trace_topic_search import TraceStream, find_topics_in_trace
    from iqcar.logs.merge import without_faulty
    from iqcar.pipeline import topics_of

    tables = read_for(paths, query_by, samples) if paths else None
    found = []
    if tables is not None:
        with counting(f"learning from stages {FIRST}") as progress:
            learn = partial(topics_of, settings=settings, names=names, progress=progress)
            tables, one = without_faulty(tables, lambda some: (some, learn(some)))
            found.append(one)
    for path in traces:
        with counting(f"learning from stages {FIRST}") as progress:
            trace = TraceStream.open(path, columns)
            found.append(find_topics_in_trace(trace, settings, progress))
    return tables, found


def _on_spark(
    master: str,
    paths: list[str],
    traces: list[str],
    columns: TraceColumns,
    settings: TopicSettings,
    query_by: QueryBy,
    names: str,
) -> tuple[Tables | None, list[Topics]]:
    """Read the logs and find topics on Spark, in one session for all logs and traces."""
    from iqcar.apps.cli.reading import check_any, on_executors
    from iqcar.fleet import topics_on_spark
    from iqcar.fleet.session import spark_session
    from iqcar.lab.traces.trace_topics import trace_topics_on_spark

    tables, found = None, []
    with spark_session(master) as spark, on_executors() as progress:
        if paths:
            tables, topics = topics_on_spark(
                spark, paths, settings, query_by=query_by, names=names, progress=progress
            )
            check_any(tables)
            if topics is not None:
                found.append(topics)
        for path in traces:
            one = trace_topics_on_spark(spark, path, columns, settings, progress=progress)
            found.append(one)
    return tables, found


def _as_printed(
    tables: Tables | None,
    traces: list[str],
    columns: TraceColumns,
) -> list[PrintedHound]:
    """Find topics in the logs, then in each trace, as Hound prints it."""
    from iqcar.apps.cli.reading import FIRST, counting
    from iqcar.causes.stragglers import build_features
    from iqcar.causes.stragglers.straggler_settings import StragglerSettings
    from iqcar.lab.traces.trace_survey import read_trace
    from iqcar.model.waits.measure import measure_waits
    from iqcar.papers.hound import printed_topics
    from iqcar.papers.hound_learners import PRINTED

    features = [read_trace(path, columns) for path in traces]
    if tables is not None:
        edge_ms = StragglerSettings().edge_ms
        features.insert(0, build_features(tables, measure_waits(tables), edge_ms))
    found = []
    for one in features:
        with counting(f"learning from stages as printed {FIRST}") as progress:
            found.append(printed_topics(one, PRINTED, 0, progress))
    return found
