"""``iqcar live``: follow a running application, and show who waits for whom now."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated

import typer

from iqcar.apps.cli import live_apply, options
from iqcar.enums import QueryBy

if TYPE_CHECKING:
    from iqcar.live.apply_rules import RuleApplier
    from iqcar.live.watch import Watch


def live(
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH",
            help="Event log of a running application: its file, its eventlog_v2_* folder, a folder "
            "in which one application runs, the URL of one of these, or spark-live://host:port, at "
            "which a driver streams its events.",
            show_default=False,
        ),
    ],
    window: Annotated[
        str,
        typer.Option(metavar="TIME", help="How much of the past is looked at: 90s, 5m, 1h."),
    ] = "60s",
    every: Annotated[
        str, typer.Option(metavar="TIME", help="How often it is looked at: 500ms, 2s.")
    ] = "2s",
    once: Annotated[bool, typer.Option("--once", help="Look once and stop.")] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print a line of JSON each time (`iqcar schema live`).")
    ] = False,
    top: options.Top = 5,
    query_by: options.Queries = QueryBy.SQL,
    critical_path: options.CriticalPath = False,
    apply: live_apply.Apply = "",
    dry_run: live_apply.DryRun = False,
    max_rules: live_apply.MaxRules = 3,
    max_changes: live_apply.MaxChanges = 12,
    wins: live_apply.Wins = 3,
    of_windows: live_apply.OfWindows = 5,
    unneeded_windows: live_apply.UnneededWindows = 6,
    hold_off: live_apply.HoldOff = "60s",
    journal: live_apply.JournalFile = "",
    keep_rules: live_apply.KeepRules = False,
    take_over: live_apply.TakeOver = False,
) -> None:
    """Follow a running application: who waits for whom in the last minute.

    Reads its event log as Spark writes it. Prints which queries lost time, to whom, for what and
    where, which are aggressive, and which tasks are stragglers now. Stops when the application
    ends, or at Ctrl-C. With --apply it also acts: it writes rules that won in several windows into
    the file that the plugin watches, takes them back when nothing needs them, and restores the file
    at the end. It stops acting while a file of the same name with .stop exists.

    Example: iqcar live spark-events/app-20240101000000-0001.inprogress
    """
    from iqcar.apps.cli.reading import counting
    from iqcar.diagnosis import Settings
    from iqcar.errors import ExitCode, IqcarError
    from iqcar.live.watch import Watch
    from iqcar.logs.attach.host_sampler import parse_time

    span_s, every_s = parse_time(window, "--window"), parse_time(every, "--every")
    settings = Settings(query_by, critical_path, top)
    watch = Watch(path, settings, span_s * 1e3)
    with live_apply.acting(
        apply, max_rules=max_rules, max_changes=max_changes, wins=wins, of_windows=of_windows,
        unneeded_windows=unneeded_windows, hold_off=hold_off, journal=journal,
        dry_run=dry_run, keep_rules=keep_rules, take_over=take_over,
    ) as loop:  # fmt: skip
        with counting(f"reading {path}") as progress:
            watch.read(progress)
        if not _look(watch, loop, span_s, 0.0 if once else every_s, json):
            raise IqcarError("no event was written yet", path)
    if watch.over:
        typer.echo(f"iqcar: {watch.last_words()}", err=True)
    raise typer.Exit(ExitCode.OK if watch.ended or not watch.over else ExitCode.PARTIAL)


def _look(
    watch: Watch, loop: RuleApplier | None, span_s: float, every_s: float, json: bool
) -> bool:
    """Print a window from time to time until nothing more will come; once, if the time is 0.

    Returns
    -------
    bool
        Whether there was any.
    """
    import time

    from rich.live import Live

    from iqcar.apps.cli.writing import write_result
    from iqcar.show.json.live import window_to_json
    from iqcar.show.terminal.layout import terminal
    from iqcar.show.terminal.live import window_view

    console = terminal()
    redraws = console.is_terminal and not json and every_s > 0
    drawn = Live(console=console, auto_refresh=False, screen=True) if redraws else nullcontext()
    with drawn as view:
        while True:
            due = loop is not None and live_apply.is_due(loop, span_s, watch.over)
            found = watch.window()
            applied = None
            if found is not None and loop is not None:
                applied = live_apply.take_in(loop, found, due)
            if found is None:
                pass
            elif json:
                write_result("-", window_to_json(found, watch.state, applied))
            elif view is not None:
                view.update(window_view(found), refresh=True)
            else:
                console.print(window_view(found))
                console.print()
            if watch.over or not every_s:
                break
            time.sleep(every_s)
            watch.read()
    if redraws and found is not None:
        console.print(window_view(found))  # the screen of the view is gone
    return found is not None
