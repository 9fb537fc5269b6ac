"""``iqcar topics``: find causes of slow tasks that recur across stages and queries."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from iqcar.apps.cli import options
from iqcar.apps.cli.command import Result, command
from iqcar.enums import LearnerSet, QueryBy, TopicMethod

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
    learners: LearnerSet = LearnerSet.RECOMMENDED,
    seed: int = 0,
    settings: str = "",
    method: TopicMethod = TopicMethod.STRAGGLERS,
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
        Event logs of one or many applications, as for `iqcar analyze`. Can be left out if there is
        a --trace.
    learners
        Base learners of each stage.
    seed : 0..4294967295
        The same seed gives the same topics.
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
    """
    from iqcar.causes.topics.topic_result import TopicSettings
    from iqcar.errors import UsageError
    from iqcar.lab.traces.trace_columns import TraceColumns
    from iqcar.papers.hound_learners import SETTINGS
    from iqcar.rules.vocabulary.topics import topic_vocabulary
    from iqcar.show.json.analyze import topics_to_json
    from iqcar.show.terminal.topics import print_printed_topics, print_topics

    chosen = TopicSettings.parse(settings, SETTINGS[learners](seed=seed))
    named = TraceColumns.parse(columns)
    topic_vocabulary(names)
    options.need_logs_or_traces(paths, trace)
    as_printed = method is TopicMethod.PRINTED
    if as_printed and settings:
        raise UsageError(
            "looks at jobs with its own thresholds", "--method printed", "leave --settings out"
        )
    tables, found = _here(
        samples, paths or [], trace or [], columns=named, settings=chosen, query_by=query_by,
        names=names,
    )  # fmt: skip

    printed = None
    if as_printed:
        printed = _as_printed(tables, trace or [], columns=named, learners=learners, seed=seed)

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


def _as_printed(
    tables: Tables | None,
    traces: list[str],
    columns: TraceColumns,
    learners: LearnerSet,
    seed: int,
) -> list[PrintedHound]:
    """Find topics in the logs, then in each trace, as Hound prints it."""
    from iqcar.apps.cli.reading import FIRST, counting
    from iqcar.causes.stragglers import build_features
    from iqcar.causes.stragglers.straggler_settings import StragglerSettings
    from iqcar.lab.traces.trace_survey import read_trace
    from iqcar.model.waits.measure import measure_waits
    from iqcar.papers.hound import printed_topics
    from iqcar.papers.hound_learners import PRINTED, SIMPLER

    features = [read_trace(path, columns) for path in traces]
    if tables is not None:
        edge_ms = StragglerSettings().edge_ms
        features.insert(0, build_features(tables, measure_waits(tables), edge_ms))
    chosen = SIMPLER if learners is LearnerSet.SIMPLE else PRINTED
    found = []
    for one in features:
        with counting(f"learning from stages as printed {FIRST}") as progress:
            found.append(printed_topics(one, chosen, seed, progress))
    return found
