"""What ``iqcar rules`` prints: pools, queues, and what rules did in two runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from iqcar.base.units import change_words, one_unit, printable, short
from iqcar.replay.queues.queue_plan import QueueResult
from iqcar.rules.rule import PoolPlan, cap_words
from iqcar.show.terminal.layout import NARROW, plain_table, print_section, terminal

if TYPE_CHECKING:
    from iqcar.comparison.check_rules import Check

MAX_NAMES = 10
"""Names of queries without a partner that are shown; the rest is counted."""


def print_check(check: Check, console: Console | None = None) -> None:
    """Print each rule's sentence, then one row per recurring query, the total, and the rest."""
    console = console or terminal()
    for rule in check.rules:
        console.print(Text(printable(f"{rule.sentence}.")))
    if check.rules:
        console.print()
    if check.total is not None:
        table = plain_table("query", ">runs", ">before", ">after", ">change", ">predicted", ">off")
        total = check.total
        before = one_unit([total.before_ms, *(row.before_ms for row in check.queries)])
        after = one_unit([total.after_ms, *(row.after_ms for row in check.queries)])
        for row in check.queries:
            table.add_row(
                short(row.name, 40),
                f"{row.runs_before}, {row.runs_after}",
                before(row.before_ms),
                after(row.after_ms),
                *map(_percent, (row.change_percent, row.predicted_percent, row.off_percent)),
            )
        table.add_row(
            Text("all together", style="italic"),
            "",
            before(total.before_ms),
            after(total.after_ms),
            *map(_percent, (total.change_percent, total.predicted_percent, total.off_percent)),
        )
        console.print(table)
        console.print(
            "Durations are means over runs, before and after; off is predicted less actual change."
        )
    for names, side in ((check.only_before, "before"), (check.only_after, "after")):
        if names:
            console.print(Text(printable(f"Only {side}: {_listed(names)}.")))
    for doubt in check.doubts:
        console.print(Text(printable(f"Doubtful: {doubt}.")))


def _percent(value: float | None) -> str:
    return "unknown" if value is None else change_words(value)


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(short(name, 40) for name in names[:MAX_NAMES])
    more = len(names) - MAX_NAMES
    return f"{shown} and {more} more" if more > 0 else shown


def print_plan(plan: PoolPlan, harmful: Sequence[str] = (), console: Console | None = None) -> None:
    """Print a row per pool, then what was decided and why; first of all the ids of what harms."""
    console = console or terminal(width=NARROW)
    if harmful:
        ids = printable(", ".join(harmful))
        console.print(Text(f"Do not apply these pools: {ids} are expected to harm.", style="bold"))
    if plan.pools:
        count = len({a.pool for a in plan.assignments})
        pools = "1 pool of its own" if count == 1 else f"{count:,} pools of their own"
        console.print(Text(f"{pools}; all other queries stay in default.", style="bold"))
        capped = any(pool.is_capped for pool in plan.pools)
        cap = ["cap"] if capped else []
        table = plain_table("pool", ">weight", ">minShare", "mode", *cap, "for queries like")
        matches = {a.pool: a.fingerprint or a.description or a.job_group for a in plan.assignments}
        for pool in plan.pools:
            match = matches.get(pool.name, "")
            table.add_row(
                Text(short(pool.name)),
                str(pool.weight),
                str(pool.min_share),
                pool.mode,
                *([cap_words(pool)] if capped else []),
                Text(short(match)) if match else Text("any other", style="dim"),
            )
        console.print(table)
    else:
        console.print("No rule acts through pools: there is nothing to apply.")
    for note in plan.notes:
        console.print(Text(f"- {printable(note)}"))


def print_queues(result: QueueResult, console: Console | None = None) -> None:
    """Print the answer, how far off the replay is, applications, diff and steps."""
    console = console or terminal(width=NARROW)
    console.print(Text(printable(answer(result)), style="bold"))
    check = result.self_check
    if check.median_error_percent is not None:
        console.print(
            f"Self-check: the replay of the run as it was is off by "
            f"{check.median_error_percent:.1f} % (median), {check.worst_error_percent:.1f} % at "
            "worst."
        )
    if result.outlook is None:
        return
    table = plain_table("application", "user", "queue", ">before", ">after")
    for one in result.applications:
        queue = one.queue_before
        if one.queue_after != one.queue_before:
            queue = f"{one.queue_before} → {one.queue_after}"
        name = short(one.name or one.application_id)
        table.add_row(
            Text(name), Text(short(one.user)), Text(printable(queue)), _queued(one.before_ms),
            _queued(one.after_ms),
        )  # fmt: skip
    print_section(console, "Applications", table)
    if result.diff:
        lines = "\n".join(printable(line) for line in result.diff.splitlines())
        print_section(console, "Changes", Text(lines))
    if result.how_to:
        print_section(console, "How to apply it", Text(printable_lines(result.how_to)))
    print_section(console, "Assumed", Text(printable_lines(result.assumptions)))


def printable_lines(lines: list[str]) -> str:
    """Join lines; names in them come from logs."""
    return "\n".join(printable(line) for line in lines)


def answer(result: QueueResult) -> str:
    """Say in a sentence what to do, and what it brings."""
    if result.expected is None:
        if result.lost_ms <= 0:
            return "No query lost much to executors that others held: nothing has to change."
        return "No change of queues or settings can be replayed for what was lost to executors."
    said = result.expected["sentence"]
    if not result.written:
        return f"No plan is written, each would harm; the best: {said}."
    verdict = {"harms": "Do not apply this plan", "no-gain": "This plan brings nothing"}
    first = verdict.get(result.outlook or "", f"This plan is expected to help ({result.outlook})")
    if result.outlook == "unsure":
        first = "This plan may help (unsure)"
    return f"{first}: {said}."


def _queued(ms: float | None) -> str:
    if ms is None:
        return "never"
    return f"{ms / 1000:.1f} s"
