"""``iqcar topics``: find causes of slow tasks that recur across stages and queries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from iqcar.apps.cli import options
from iqcar.enums import LearnerSet, QueryBy

if TYPE_CHECKING:
    from iqcar.causes.topics.topic_result import Topics, TopicSettings
    from iqcar.lab.traces.trace_columns import TraceColumns
    from iqcar.tables import Tables


def topics(
    paths: options.PathsOrTrace = None,
    trace: options.Traces = None,
    columns: options.Columns = "",
    learners: Annotated[
        LearnerSet,
        typer.Option(help=f"Base learners of each stage. {options.choices(LearnerSet)}."),
    ] = LearnerSet.RECOMMENDED,
    seed: Annotated[
        int, typer.Option(min=0, max=2**32 - 1, help="The same seed gives the same topics.")
    ] = 0,
    settings: Annotated[
        str,
        typer.Option(
            metavar="NAME=VALUE,…",
            help="Thresholds (docs/topics.md), e.g. coverage=0.02,least_tasks=10.",
        ),
    ] = "",
    names: Annotated[
        str,
        typer.Option(
            metavar="FILE", help="Your own names of topics, in the format of rules/topics.json."
        ),
    ] = "",
    json: Annotated[
        str | None,
        typer.Option("--json", metavar="FILE|-", help="Write topics and all mixtures as JSON."),
    ] = None,
    top: Annotated[
        int, typer.Option(min=1, max=1000, help="How many stages and queries to show.")
    ] = 10,
    query_by: options.Queries = QueryBy.SQL,
    samples: options.Samples = None,
    on_spark: Annotated[
        bool,
        typer.Option(
            "--on-spark",
            help="Read the logs, or the traces if they are Parquet, and look at their stages on "
            "Spark: on the active session or the application of spark-submit, else on --master. "
            "The result is the same.",
        ),
    ] = False,
    master: options.Master = "",
    force: options.Force = False,
) -> None:
    """Find what keeps making tasks slow: causes of stragglers that recur in many stages.

    Three kinds of learners look at every stage with stragglers; metrics that stand out together
    in many stages are a topic, if learners of different kinds found it (Hound). Every stage and
    query gets its mixture of topics. The more applications, the more there is to learn from.

    Example: iqcar topics spark-events/ --json topics.json

    For many logs: iqcar topics s3a://logs/ --on-spark --master spark://host:7077
    """
    from iqcar.apps.cli.reading import exit_code
    from iqcar.apps.cli.writing import check_writable, write_result
    from iqcar.causes.topics.topic_result import TopicSettings
    from iqcar.errors import ExitCode, UsageError
    from iqcar.lab.traces.trace_columns import TraceColumns
    from iqcar.rules.vocabulary.topics import topic_vocabulary
    from iqcar.show.json.analyze import topics_to_json
    from iqcar.show.terminal.topics import print_topics

    chosen = TopicSettings.parse(settings, TopicSettings(learners=learners, seed=seed))
    named = TraceColumns.parse(columns)
    topic_vocabulary(names)
    check_writable(json, force)
    options.need_logs_or_traces(paths, trace)
    if on_spark and samples:
        raise UsageError("cannot be joined on Spark", "--samples", "leave out one of the two")
    if master and not on_spark:
        raise UsageError("goes with --on-spark only", "--master")
    find = partial(_on_spark, master) if on_spark else partial(_here, samples)
    tables, found = find(paths or [], trace or [], named, chosen, query_by, names)
    if json != "-":
        for one in found:
            print_topics(one, top, names)
    if json is not None:
        write_result(json, topics_to_json(tables, found, names))
    raise typer.Exit(exit_code(tables) if tables is not None else ExitCode.OK)


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
    from iqcar.apps.cli.reading import read_for
    from iqcar.lab.traces.trace_topic_search import TraceStream, find_topics_in_trace
    from iqcar.logs.merge import without_faulty
    from iqcar.pipeline import topics_of

    tables = read_for(paths, query_by, samples) if paths else None
    found = []
    if tables is not None:
        with _learning() as progress:
            learn = partial(topics_of, settings=settings, names=names, progress=progress)
            tables, one = without_faulty(tables, lambda some: (some, learn(some)))
            found.append(one)
    for path in traces:
        with _learning() as progress:
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


@contextmanager
def _learning() -> Iterator[Callable[[int, int], None] | None]:
    """Show the number of stages learned from, on a terminal."""
    from iqcar.apps.cli.reading import steps_done

    what = "learning from stages (the first run on a machine compiles for some seconds)"
    with steps_done(what) as bar:
        yield None if bar is None else lambda done, whole: bar("", done, whole)
