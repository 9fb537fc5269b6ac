"""``iqcar topics``: find causes of slow tasks that recur across stages and queries."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from iqcar.apps.cli import options
from iqcar.apps.cli.command import Result, command
from iqcar.enums import QueryBy

if TYPE_CHECKING:
    from iqcar.causes.topics.topic_result import Topics, TopicSettings
    from iqcar.tables import Tables


@command("What keeps making tasks slow.")
def topics(
    paths: list[str],
    *,
    seed: int = 0,
    settings: str = "",
    names: str = "",
    json: str | None = None,
    top: int = 10,
    query_by: QueryBy = QueryBy.SQL,
    samples: list[str] | None = None,
    on_spark: bool = False,
    master: str = "",
) -> Result:
    """Find what keeps making tasks slow: causes of stragglers that recur in many stages.

    Three kinds of learners look at every stage with stragglers; metrics that stand out together
    in many stages are a topic, if learners of different kinds found it (Hound). Every stage and
    query gets its mixture of topics. The more applications, the more there is to learn from.

    Example: iqcar topics spark-events/ --json topics.json

    For many logs: iqcar topics s3a://logs/ --on-spark --master spark://host:7077

    Parameters
    ----------
    paths : [PATH]...
        Event logs of one or many applications, as for `iqcar analyze`.
    seed : 0..4294967295
        The same seed gives the same topics.
    settings : NAME=VALUE,…
        Thresholds (docs/topics.md), e.g. coverage=0.02,least_tasks=10.
    names : FILE
        Your own names of topics, in the format of rules/topics.json.
    json : FILE|-
        Write topics and all mixtures as JSON.
    top : 1..1000
        How many stages and queries to show.
    on_spark
        Read the logs and look at their stages on Spark: on the active session or the application of
        spark-submit, else on --master. The result is the same.
    """
    from iqcar.causes.topics.topic_result import TopicSettings
    from iqcar.errors import UsageError
    from iqcar.rules.vocabulary.topics import topic_vocabulary
    from iqcar.show.json.analyze import topics_to_json
    from iqcar.show.terminal.topics import print_topics

    chosen = TopicSettings.parse(settings, TopicSettings(seed=seed))
    topic_vocabulary(names)
    if on_spark and samples:
        raise UsageError("cannot be joined on Spark", "--samples", "leave out one of the two")
    options.check_master(master, on_spark)
    find = partial(_on_spark, master) if on_spark else partial(_here, samples)
    tables, found = find(paths, settings=chosen, query_by=query_by, names=names)

    def show() -> None:
        for one in found:
            print_topics(one, top, names)

    return Result(show, partial(topics_to_json, tables, found, names), tables=[tables])


def _here(
    samples: list[str] | None,
    paths: list[str],
    settings: TopicSettings,
    query_by: QueryBy,
    names: str,
) -> tuple[Tables, list[Topics]]:
    """Read the logs and find topics in this process."""
    from iqcar.apps.cli.reading import FIRST, counting, read_for
    from iqcar.logs.merge import without_faulty
    from iqcar.pipeline import topics_of

    tables = read_for(paths, query_by, samples)
    with counting(f"learning from stages {FIRST}") as progress:
        learn = partial(topics_of, settings=settings, names=names, progress=progress)
        tables, found = without_faulty(tables, lambda some: (some, learn(some)))
    return tables, [found]


def _on_spark(
    master: str,
    paths: list[str],
    settings: TopicSettings,
    query_by: QueryBy,
    names: str,
) -> tuple[Tables, list[Topics]]:
    """Read the logs and find topics on Spark."""
    from iqcar.apps.cli.reading import check_any, on_executors
    from iqcar.fleet import topics_on_spark
    from iqcar.fleet.session import spark_session

    with spark_session(master) as spark, on_executors() as progress:
        tables, topics = topics_on_spark(
            spark, paths, settings, query_by=query_by, names=names, progress=progress
        )
    check_any(tables)
    return tables, [] if topics is None else [topics]
