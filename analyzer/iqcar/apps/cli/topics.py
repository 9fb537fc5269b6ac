"""``iqcar topics``: find causes of slow tasks that recur across stages and queries."""

from __future__ import annotations

from functools import partial

from iqcar.apps.cli.command import Result, command
from iqcar.enums import QueryBy


@command("What keeps making tasks slow.")
def topics(
    paths: list[str],
    *,
    settings: str = "",
    names: str = "",
    json: str | None = None,
    top: int = 10,
    query_by: QueryBy = QueryBy.SQL,
    samples: list[str] | None = None,
) -> Result:
    """Find what keeps making tasks slow: causes of stragglers that recur in many stages.

    Metrics that stand out together in the stragglers of many stages are a topic, if they follow
    the tasks' durations too (after Hound). Every stage and query gets its mixture of topics. The
    more applications, the more there is to learn from.

    Example: iqcar topics spark-events/ --json topics.json

    Parameters
    ----------
    paths : [PATH]...
        Event logs of one or many applications, as for `iqcar analyze`.
    settings : NAME=VALUE,…
        Thresholds (docs/topics.md), e.g. coverage=0.02,least_tasks=10.
    names : FILE
        Your own names of topics, in the format of rules/topics.json.
    json : FILE|-
        Write topics and all mixtures as JSON.
    top : 1..1000
        How many stages and queries to show.
    """
    from iqcar.apps.cli.reading import FIRST, counting, read_for
    from iqcar.causes.topics.topic_result import TopicSettings
    from iqcar.logs.merge import without_faulty
    from iqcar.pipeline import topics_of
    from iqcar.rules.vocabulary import topic_vocabulary
    from iqcar.show.json.analyze import topics_to_json
    from iqcar.show.terminal.analyze import print_topics

    chosen = TopicSettings.parse(settings)
    topic_vocabulary(names)
    tables = read_for(paths, query_by, samples)
    with counting(f"learning from stages {FIRST}") as progress:
        learn = partial(topics_of, settings=chosen, names=names, progress=progress)
        tables, found = without_faulty(tables, lambda some: (some, learn(some)))

    def show() -> None:
        print_topics(found, top, names)

    return Result(show, partial(topics_to_json, tables, [found], names), tables=[tables])
