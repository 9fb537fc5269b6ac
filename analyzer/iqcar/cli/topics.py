"""``iqcar topics``: what keeps making tasks slow across stages and queries."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from iqcar.cli import options
from iqcar.kinds import LearnerSet, QueryBy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def topics(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PATH]...",
            help="Event logs of one or many applications, as for `iqcar analyze`. Can be left out "
            "if there is a --trace.",
            show_default=False,
        ),
    ] = None,
    trace: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="A trace of another system, as for `iqcar stragglers`. Can be given several "
            "times; topics are found in each.",
        ),
    ] = None,
    columns: Annotated[
        str,
        typer.Option(
            metavar="KEY=COLUMN,…",
            help="Which columns of a trace are what, as for `iqcar stragglers`.",
        ),
    ] = "",
    learners: Annotated[
        LearnerSet,
        typer.Option(help=f"Who looks at each stage. {options.choices(LearnerSet)}."),
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
    force: options.Force = False,
) -> None:
    """Find what keeps making tasks slow: causes of stragglers that recur in many stages.

    Three kinds of learners look at every stage with stragglers; metrics that stand out together
    in many stages are a topic, if learners of different kinds found it (Hound). Every stage and
    query gets its mixture of topics. The more applications, the more there is to learn from.

    Example: iqcar topics spark-events/ --json topics.json
    """
    from iqcar.cli.reading import exit_code, read_for
    from iqcar.cli.writing import check_writable, write_result
    from iqcar.errors import ExitCode, UsageError
    from iqcar.report.json_result import topics_to_json
    from iqcar.report.topic_text import print_topics
    from iqcar.rules.topics import topic_vocabulary
    from iqcar.stragglers.trace_columns import TraceColumns
    from iqcar.topics import TopicSettings

    chosen = TopicSettings.parse(settings, TopicSettings(learners=learners, seed=seed))
    named = TraceColumns.parse(columns)
    topic_vocabulary(names)
    check_writable(json, force)
    if not paths and not trace:
        raise UsageError("neither an event log nor a trace", "", "give a PATH or --trace FILE")
    tables = read_for(paths, query_by, samples) if paths else None
    found = []
    if tables is not None:
        from iqcar.pipeline import topics_of

        with _learning() as progress:
            found.append(topics_of(tables, chosen, names=names, progress=progress))
    for path in trace or ():
        from iqcar.stragglers.trace_stream import TraceStream
        from iqcar.topics import find_topics_in_trace

        with _learning() as progress:
            found.append(find_topics_in_trace(TraceStream.of(path, named), chosen, progress))
    if json != "-":
        for one in found:
            print_topics(one, top, names)
    if json is not None:
        write_result(json, topics_to_json(tables, found, names))
    raise typer.Exit(exit_code(tables) if tables is not None else ExitCode.OK)


@contextmanager
def _learning() -> Iterator[Callable[[int, int], None] | None]:
    """Show a bar on standard error while stages are learned from, if that is a terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    with Progress(
        TextColumn("learning from stages (the first run on a machine compiles for some seconds)"),
        BarColumn(),
        MofNCompleteColumn(),
        console=console,
        transient=True,
    ) as bar:
        task = bar.add_task("learning", total=None)
        yield lambda done, whole: bar.update(task, completed=done, total=whole)
