"""``iqcar report``: write an interactive report as one HTML file."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from iqcar.apps.cli import options
from iqcar.apps.cli.command import Result, check_writable, command, write_result
from iqcar.errors import UsageError


@command("The same as one HTML file to explore.", writes=())
def report(
    paths: options.Paths,
    out: Annotated[
        str,
        typer.Option(
            metavar="FILE|-",
            help="File to write. Default: the log's name with -report.html, or "
            "iqcar-report.html for several.",
        ),
    ] = "",
    target: options.Targets = None,
    *,
    how: options.Diagnosing,
    topics: Annotated[
        bool | None,
        typer.Option(
            "--topics/--no-topics",
            help="Look for causes of stragglers that recur in many stages. By default where "
            "there are enough stages to find any.",
        ),
    ] = None,
    advice: options.Advice = "",
    title: Annotated[
        str, typer.Option(help="Heading of the report. Default: the applications' names.")
    ] = "",
    show: Annotated[bool, typer.Option("--open", help="Open the report in a browser.")] = False,
    samples: options.Samples = None,
    all_rules: options.AllRules = False,
    by: options.By = "",
    force: options.Force = False,
) -> Result:
    """Write the diagnosis as one interactive HTML file, which needs no network.

    Verdict, who hurts whom, each query step by step (stages, resources, hosts, sources), timeline,
    hosts, stragglers, rules and inputs. Every picture has its numbers as a table; a link restores
    the selection.

    Example: iqcar report spark-events/ --out report.html
    """
    from iqcar.apps.cli.reading import read_for, working
    from iqcar.causes.topics.jobs import enough_for_topics
    from iqcar.pipeline import diagnose
    from iqcar.rules.vocabulary.advice_kinds import advice_kinds
    from iqcar.show.html import render_page
    from iqcar.show.html.output_name import report_name

    file = out or report_name(paths)
    if show and file == "-":
        raise UsageError("standard output cannot be opened", "--open", "name a file with --out")
    check_writable(file, force)
    if advice:
        advice_kinds(advice)
    tables = read_for(paths, how.query_by, samples)
    with working("analysing"):
        diagnosis = diagnose(
            tables,
            targets=target or (),
            by=by,
            topics=enough_for_topics(tables) if topics is None else topics,
            advice=advice,
            all_rules=all_rules,
            **asdict(how),
        )
        content = render_page(diagnosis, title=title).encode("utf-8", "replace")
    write_result(file, content)
    if show:
        _open(file)
    return Result(tables=[diagnosis.tables])


def _open(file: str) -> None:
    """Open the file in the user's browser; without one, print its address."""
    import webbrowser
    from pathlib import Path

    address = Path(file).resolve().as_uri()
    if not webbrowser.open(address):
        typer.echo(f"no browser could be started; open {address}", err=True)
