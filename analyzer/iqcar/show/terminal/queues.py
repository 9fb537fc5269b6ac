"""Plans for the queues of a shared cluster, as text on a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from iqcar.base.units import printable, short
from iqcar.replay.queues.queue_plan import QueueResult
from iqcar.show.terminal.layout import NARROW, plain_table, print_section, terminal


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
            Text(name), Text(short(one.user)), Text(printable(queue)), _time(one.before_ms),
            _time(one.after_ms),
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


def _time(ms: float | None) -> str:
    if ms is None:
        return "never"
    return f"{ms / 1000:.1f} s"
