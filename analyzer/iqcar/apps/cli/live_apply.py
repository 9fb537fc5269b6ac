"""Options and steps of ``iqcar live --apply``: rules written while the application runs."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from iqcar.live.apply_rules import Applied, RuleApplier
    from iqcar.live.window import Window

Apply = Annotated[
    str,
    typer.Option(
        metavar="FILE",
        help="Act: write rules into this file, which the plugin watches (spark.iqcar.rules). Rules "
        "that are in it stay.",
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="With --apply: say what would be written, and write not.")
]
MaxRules = Annotated[
    int, typer.Option(min=0, max=100, help="With --apply: rules that act at once, at most.")
]
MaxChanges = Annotated[
    int,
    typer.Option(
        min=0,
        max=1000,
        help="With --apply: rules written and taken back in an hour, together, at most. One is "
        "kept for each rule that acts, to take it back.",
    ),
]
Wins = Annotated[
    int,
    typer.Option(
        min=1,
        max=1000,
        help="With --apply: a rule is written when it won in so many of the last windows.",
    ),
]
OfWindows = Annotated[
    int,
    typer.Option(
        min=1,
        max=1000,
        help="With --apply: how many windows those are. A window counts that is new by half.",
    ),
]
UnneededWindows = Annotated[
    int,
    typer.Option(
        min=1,
        max=1000,
        help="With --apply: a rule is taken back when nothing needed it in so many windows in a "
        "row.",
    ),
]
HoldOff = Annotated[
    str,
    typer.Option(
        metavar="TIME",
        help="With --apply: how long a rule that was taken back is not written again; twice as "
        "long after each further time.",
    ),
]
JournalFile = Annotated[
    str,
    typer.Option(
        metavar="FILE",
        help="With --apply: gets a line of JSON for each decision, with its reason. Default: the "
        "rules file's name with .journal.jsonl.",
    ),
]
KeepRules = Annotated[
    bool,
    typer.Option(
        "--keep-rules",
        help="With --apply: leave the rules that act at the end, instead of restoring the file.",
    ),
]
TakeOver = Annotated[
    bool,
    typer.Option(
        "--take-over",
        help="With --apply: where somebody else edits the file meanwhile, keep those rules and "
        "add to them, instead of stopping to act.",
    ),
]


@contextmanager
def acting(
    path: str,
    max_rules: int,
    max_changes: int,
    wins: int,
    of_windows: int,
    unneeded_windows: int,
    hold_off: str,
    *,
    journal: str,
    dry_run: bool,
    keep_rules: bool,
    take_over: bool,
) -> Iterator[RuleApplier | None]:
    """Yield the loop of a rules file, and end it however the command ends; None without a file.

    Raises
    ------
    IqcarError
        If the file is no rules file, the kill switch is on, or options contradict each other.
    """
    from iqcar.errors import UsageError
    from iqcar.live.apply_rules import RuleApplier
    from iqcar.live.rule_loop import Limits
    from iqcar.live.rule_writer import RuleWriter
    from iqcar.logs.attach.host_sampler import parse_time

    if not path:
        if dry_run or journal or keep_rules or take_over:
            raise UsageError("there are no rules to write", "", "name the file with --apply")
        yield None
        return
    if wins > of_windows:
        raise UsageError(f"no rule wins in {wins} of {of_windows} windows", "--wins", "lower it")
    hold_off_ms = 1e3 * parse_time(hold_off, "--hold-off")
    loop = RuleApplier(
        RuleWriter(path),
        Limits(
            max_rules=max_rules,
            max_changes_per_hour=max_changes,
            wins=wins,
            of_windows=of_windows,
            missed_windows=unneeded_windows,
            hold_off_ms=hold_off_ms,
        ),
        journal=journal or f"{path}.journal.jsonl",
        dry_run=dry_run,
        take_over=take_over,
        restore=not keep_rules,
    )
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


def is_due(loop: RuleApplier, window_s: float, last: bool) -> bool:
    """Tell whether the next window is for the loop: predictions are made for these alone."""
    return last or loop.is_due(_now_ms(), 1e3 * window_s)


def take_in(loop: RuleApplier, window: Window, due: bool) -> Applied:
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
    from iqcar.base.formatting import printable

    for line in lines:
        rule = line.get("rule")
        what = f" {rule['rule-type']} for {rule['query_name']}" if rule else ""
        said = printable(f"iqcar: {line['event']}{what}: {line['reason']}")
        typer.echo(said, err=True)
