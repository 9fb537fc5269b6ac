"""``iqcar topics``: find causes of slow tasks that recur across stages and queries."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from iqcar.apps.cli.command import Result, command
from iqcar.enums import QueryBy

if TYPE_CHECKING:
    pass


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
) -> Result:
    """Find what keeps making tasks slow: causes of stragglers that recur in many stages.

    Three kinds of learners look at every stage with stragglers; metrics that stand out together
    in many stages are a topic, if learners of different kinds found it (Hound). Every stage and
    query gets its mixture of topics. The more applications, the more there is to learn from.

    Example: iqcar topics spark-events/ --json topics.json

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
    """
    from iqcar.apps.cli.reading import FIRST, counting, read_for
    from iqcar.causes.topics.topic_result import TopicSettings
    from iqcar.logs.merge import without_faulty
    from iqcar.pipeline import topics_of
    from iqcar.rules.vocabulary.topics import topic_vocabulary
    from iqcar.show.json.analyze import topics_to_json
    from iqcar.show.terminal.topics import print_topics

    chosen = TopicSettings.parse(settings, TopicSettings(seed=seed))
    topic_vocabulary(names)
    tables = read_for(paths, query_by, samples)
    with counting(f"learning from stages {FIRST}") as progress:
        learn = partial(topics_of, settings=chosen, names=names, progress=progress)
        tables, found = without_faulty(tables, lambda some: (some, learn(some)))

    def show() -> None:
        print_topics(found, top, names)

    return Result(show, partial(topics_to_json, tables, [found], names), tables=[tables])
