"""``iqcar live``: follow a running application, and show who waits for whom now."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import typer

from iqcar.apps.cli import options
from iqcar.apps.cli.command import Result, command, explain_line, write_result
from iqcar.errors import ExitCode, IqcarError, UsageError

if TYPE_CHECKING:
    from iqcar.live.apply_rules import Applied, RuleApplier
    from iqcar.live.watch import Watch
    from iqcar.live.window import Window


@dataclass(frozen=True)
class Acting:
    """Whether and how rules are written while the application runs.

    Attributes
    ----------
    apply : FILE
        Act: write rules into this file, which the plugin watches (spark.iqcar.rules). Rules that
        are in it stay.
    dry_run
        With --apply: say what would be written, and write not.
    max_rules : 0..100
        With --apply: rules that act at once, at most.
    max_changes : 0..1000
        With --apply: rules written and taken back in an hour, together, at most. One is kept for
        each rule that acts, to take it back.
    wins : 1..1000
        With --apply: a rule is written when it won in so many of the last windows.
    of_windows : 1..1000
        With --apply: how many windows those are. A window counts that is new by half.
    unneeded_windows : 1..1000
        With --apply: a rule is taken back when nothing needed it in so many windows in a row.
    hold_off : TIME
        With --apply: how long a rule that was taken back is not written again; twice as long after
        each further time.
    journal : FILE
        With --apply: gets a line of JSON for each decision, with its reason. Default: the rules
        file's name with .journal.jsonl.
    keep_rules
        With --apply: leave the rules that act at the end, instead of restoring the file.
    take_over
        With --apply: where somebody else edits the file meanwhile, keep those rules and add to
        them, instead of stopping to act.
    """

    apply: str = ""
    dry_run: bool = False
    max_rules: int = 3
    max_changes: int = 12
    wins: int = 3
    of_windows: int = 5
    unneeded_windows: int = 6
    hold_off: str = "60s"
    journal: str = ""
    keep_rules: bool = False
    take_over: bool = False

    def loop(self) -> RuleApplier | None:
        """Make the loop of the rules file; None without one.

        Raises
        ------
        IqcarError
            If the file is no rules file, the kill switch is on, or options contradict each other.
        """
        from iqcar.base.units import parse_time
        from iqcar.live.apply_rules import RuleApplier
        from iqcar.live.rule_loop import Limits, RuleWriter

        if not self.apply:
            if self.dry_run or self.journal or self.keep_rules or self.take_over:
                raise UsageError("there are no rules to write", "", "name the file with --apply")
            return None
        wins, of = self.wins, self.of_windows
        if wins > of:
            raise UsageError(f"no rule wins in {wins} of {of} windows", "--wins", "lower it")
        hold_off_ms = 1e3 * parse_time(self.hold_off, "--hold-off")
        bounds = (self.max_rules, self.max_changes, wins, of, self.unneeded_windows, hold_off_ms)
        return RuleApplier(
            RuleWriter(self.apply),
            Limits(*bounds),
            journal=self.journal or f"{self.apply}.journal.jsonl",
            dry_run=self.dry_run,
            take_over=self.take_over,
            restore=not self.keep_rules,
        )


@command("Who waits for whom now, while it runs.", writes=())
def live(
    path: str,
    *,
    window: str = "60s",
    every: str = "2s",
    once: bool = False,
    json: bool = False,
    how: options.Diagnosing,
    acting: Acting,
) -> Result:
    """Follow a running application: who waits for whom in the last minute.

    Reads its event log as Spark writes it. Prints which queries lost time, to whom, for what and
    where, which are aggressive, and which tasks are stragglers now. Stops when the application
    ends, or at Ctrl-C. With --apply it also acts: it writes rules that won in several windows into
    the file that the plugin watches, takes them back when nothing needs them, and restores the file
    at the end. It stops acting while a file of the same name with .stop exists.

    Example: iqcar live spark-events/app-20240101000000-0001.inprogress

    Parameters
    ----------
    path : PATH
        Event log of a running application: its file, its eventlog_v2_* folder, a folder in which
        one application runs, the URL of one of these, http://host:18080/history/APP of a History
        Server, or spark-live://host:port, at which a driver streams its events.
    window : TIME
        How much of the past is looked at: 90s, 5m, 1h.
    every : TIME
        How often it is looked at: 500ms, 2s.
    once
        Look once and stop.
    json
        Print a line of JSON each time (`iqcar schema live`).
    """
    from iqcar.apps.cli.reading import counting
    from iqcar.base.units import parse_time
    from iqcar.diagnosis import Settings
    from iqcar.live.watch import Watch

    span_s, every_s = parse_time(window, "--window"), parse_time(every, "--every")
    watch = Watch(path, Settings(**asdict(how)), span_s * 1e3)
    with _until_the_end(acting.loop()) as loop:
        with counting(f"reading {path}") as progress:
            watch.read(progress)
        if not _look(watch, loop, span_s, 0.0 if once else every_s, json):
            raise IqcarError("no event was written yet", path)
    if watch.over:
        typer.echo(f"iqcar: {watch.last_words()}", err=True)
    return Result(ends=ExitCode.OK if watch.ended or not watch.over else ExitCode.PARTIAL)


@contextmanager
def _until_the_end(loop: RuleApplier | None) -> Iterator[RuleApplier | None]:
    """Start a loop, and end it however the command ends."""
    if loop is None:
        yield None
        return
    _say(loop.start(_now_ms()))
    why = "the command ended"
    previous = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield loop
        why = "nothing more will come of the log"
    except KeyboardInterrupt:
        why = "Ctrl-C"
        raise
    finally:
        _say(loop.end(_now_ms(), why).lines)
        signal.signal(signal.SIGTERM, previous)


def _look(
    watch: Watch, loop: RuleApplier | None, span_s: float, every_s: float, json: bool
) -> bool:
    """Print a window from time to time until nothing more will come; once, if the time is 0.

    Returns
    -------
    bool
        Whether there was any.
    """
    from rich.live import Live

    from iqcar.show.json.live import window_to_json
    from iqcar.show.terminal.layout import terminal
    from iqcar.show.terminal.live import window_view

    console = terminal()
    redraws = console.is_terminal and not json and every_s > 0
    drawn = Live(console=console, auto_refresh=False, screen=True) if redraws else nullcontext()
    with drawn as view:
        while True:
            # Predictions are made only for windows that are for the loop.
            due = loop is not None and (watch.over or loop.is_due(_now_ms(), 1e3 * span_s))
            found = watch.window()
            applied = None
            if found is not None and loop is not None:
                applied = _take_in(loop, found, due)
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


def _take_in(loop: RuleApplier, window: Window, due: bool) -> Applied:
    """Give a window to the loop, and say on standard error what it decided."""
    from iqcar.live.apply_rules import predicted_rules

    applied = loop.look(_now_ms())
    if due and not applied.stopped:
        seen = window.diagnosis
        rules = predicted_rules(seen.tables, seen.graph, seen.rules, loop.acting())
        times = (window.start_ms, window.end_ms)
        applied = loop.window(window.tables, rules, *times, _now_ms())
    _say(applied.lines)
    return applied


def _now_ms() -> float:
    return 1e3 * time.time()


def _say(lines: Iterable[dict[str, Any]]) -> None:
    for line in lines:
        rule = line.get("rule")
        what = f" {rule['rule-type']} for {rule['query_name']}" if rule else ""
        explain_line(f"iqcar: {line['event']}{what}: {line['reason']}")
