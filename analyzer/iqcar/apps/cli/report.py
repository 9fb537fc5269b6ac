"""``iqcar report``: write an interactive report as one HTML file."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from iqcar.apps.cli import options
from iqcar.apps.cli.command import Result, check_writable, command, explain_line, write_result
from iqcar.errors import UsageError

if TYPE_CHECKING:
    from iqcar.tables import Tables


@command("The same as one HTML file to explore.", writes=())
def report(
    logs: list[str] | None = None,
    *,
    out: str = "",
    target: list[str] | None = None,
    how: options.Diagnosing,
    topics: bool | None = None,
    advice: str = "",
    title: str = "",
    show: bool = False,
    samples: list[str] | None = None,
    all_rules: bool = False,
    by: str = "",
    recall: str = "",
    curves: str = "",
    yarn: str = "",
    force: bool = False,
) -> Result:
    """Write the diagnosis as one interactive HTML file, which needs no network.

    Verdict, who hurts whom, each query step by step (stages, resources, hosts, sources), timeline,
    hosts, stragglers, rules and inputs. Every picture has its numbers as a table; a link restores
    the selection.

    Example: iqcar report spark-events/ --out report.html

    Parameters
    ----------
    out : FILE|-
        File to write. Default: the log's name with -report.html, or iqcar-report.html for several.
    topics
        Look for causes of stragglers that recur in many stages; they shape rules where 20 stages
        have stragglers. By default where there are enough stages to find any.
    title
        Heading of the report. Default: the applications' names.
    show : --open
        Open the report in a browser.
    """
    from iqcar.apps.cli.reading import diagnosed, logs_of, working
    from iqcar.causes.topics.jobs import enough_for_topics
    from iqcar.causes.topics.topic_result import FEW_JOBS
    from iqcar.rules.vocabulary import advice_kinds
    from iqcar.say.verdict import find_verdict
    from iqcar.show.html import render_page
    from iqcar.show.html.files import report_name

    paths = logs_of(logs)
    file = out or report_name(paths)
    if show and file == "-":
        raise UsageError("standard output cannot be opened", "--open", "name a file with --out")
    check_writable(file, force)
    if advice:
        advice_kinds(advice)

    def worth_it(tables: Tables) -> bool | None:
        return None if enough_for_topics(tables, FEW_JOBS) else enough_for_topics(tables)

    diagnosis = diagnosed(
        paths,
        samples,
        recall,
        curves,
        yarn,
        targets=target or (),
        by=by,
        topics=worth_it if topics is None else topics,
        advice=advice,
        all_rules=all_rules,
        **asdict(how),
    )
    with working("analysing"):
        content = render_page(diagnosis, title=title).encode("utf-8", "replace")
    write_result(file, content)
    if file != "-":
        explain_line(find_verdict(diagnosis).headline, err=False)
        explain_line(Path(file).resolve().as_uri(), err=False)
    if show:
        open_page(file)
    return Result(tables=[diagnosis.tables])


def open_page(file: str) -> None:
    """Open the file in the user's browser; without one, print its address."""
    import webbrowser

    address = Path(file).resolve().as_uri()
    if not webbrowser.open(address):
        typer.echo(f"no browser could be started; open {address}", err=True)
