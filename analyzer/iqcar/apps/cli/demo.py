"""``iqcar demo``: record a mix of queries, diagnose it, and run it again with the rules."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from iqcar.apps.cli.command import DEMO, Result, command

if TYPE_CHECKING:
    from iqcar.diagnosis import Diagnosis


@command("Try it all on an embedded Spark.", needs=DEMO)
def demo(
    *, out: Path = Path("iqcar-demo"), scale: float = 0.3, keep: bool = False, show: bool = False
) -> Result:
    """Record TPC-DS queries beside a heavy hitter, diagnose them, run them again with the rules.

    Everything runs on an embedded Spark on this machine, in about three minutes: the same queries
    at the same times, up to three times as they are and as often with the scheduler rules that the
    diagnosis proposes. Ends with the measured and predicted effect on each query. report.html in
    the folder shows the diagnosis before the rules, diagnosis.txt all of its text.

    Example: iqcar demo --open

    Parameters
    ----------
    out : DIR
        Folder for data, event logs and results.
    scale : 0.01..100
        TPC-DS scale factor; 0.3 is 75 MB.
    keep
        Keep the event logs of earlier runs in the folder.
    show : --open
        Open the report in a browser at the end.
    """
    import io
    import shutil

    from iqcar.apps.cli.report import open_page
    from iqcar.apps.demo.record_and_compare import print_story, story_json, tell
    from iqcar.base.files.derived import open_derived, write_derived
    from iqcar.show.html import render_page
    from iqcar.show.json.analyze import to_json
    from iqcar.show.terminal.analyze import print_answer, print_diagnosis
    from iqcar.show.terminal.layout import terminal

    if not keep:
        shutil.rmtree(out / "eventlogs", ignore_errors=True)
    out.mkdir(parents=True, exist_ok=True)
    report = out / "report.html"
    with io.TextIOWrapper(open_derived(out / "diagnosis.txt"), "utf-8") as text:

        def shown(diagnosis: Diagnosis) -> None:
            print_answer(diagnosis)
            print_diagnosis(diagnosis, terminal(text))
            write_derived(out / "diagnosis.json", to_json(diagnosis))
            page = render_page(diagnosis, title="The demo, before the rules")
            write_derived(report, page)

        story = tell(out, scale, say=typer.echo, show=shown)
        print_story(story, terminal(text))

    def last() -> None:
        typer.echo(f"Wrote {out}: diagnosis.txt, diagnosis.json, rules.json, eventlogs/", err=True)
        how = "" if show else " (--open opens it in a browser)"
        typer.echo(f"Report: {report.resolve().as_uri()}{how}", err=True)
        if show:
            open_page(str(report))

    return Result(partial(print_story, story), partial(story_json, story), last=last)
