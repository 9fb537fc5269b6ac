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
def demo(*, out: Path = Path("iqcar-demo"), scale: float = 0.3, keep: bool = False) -> Result:
    """Record TPC-DS queries beside a heavy hitter, diagnose them, run them again with the rules.

    Everything runs on an embedded Spark on this machine: the same queries at the same times, once
    as they are and once with the scheduler rules that the first run's diagnosis proposes. Ends
    with the measured and predicted effect on each query. report.html in the folder shows the first
    run's diagnosis.

    Example: iqcar demo --scale 0.3

    Parameters
    ----------
    out : DIR
        Folder for data, event logs and results.
    scale : 0.01..100
        TPC-DS scale factor; 0.3 is 75 MB.
    keep
        Keep the event logs of earlier runs in the folder.
    """
    import io
    import shutil

    from iqcar.apps.demo.record_and_compare import print_story, story_json, tell
    from iqcar.base.files.derived import open_derived, write_derived
    from iqcar.show.html import render_page
    from iqcar.show.json.analyze import to_json
    from iqcar.show.terminal.analyze import print_diagnosis
    from iqcar.show.terminal.layout import terminal

    if not keep:
        shutil.rmtree(out / "eventlogs", ignore_errors=True)
    out.mkdir(parents=True, exist_ok=True)
    with io.TextIOWrapper(open_derived(out / "diagnosis.txt"), "utf-8") as text:

        def show(diagnosis: Diagnosis) -> None:
            print_diagnosis(diagnosis)
            print_diagnosis(diagnosis, terminal(text))
            write_derived(out / "diagnosis.json", to_json(diagnosis))
            page = render_page(diagnosis, title="The demo, before the rules")
            write_derived(out / "report.html", page)

        story = tell(out, scale, say=typer.echo, show=show)
        print_story(story, terminal(text))
    wrote = (
        f"Wrote {out}: report.html (open it in a browser), diagnosis.txt, diagnosis.json, "
        "rules.json, eventlogs/"
    )
    return Result(
        partial(print_story, story),
        partial(story_json, story),
        last=partial(typer.echo, wrote, err=True),
    )
