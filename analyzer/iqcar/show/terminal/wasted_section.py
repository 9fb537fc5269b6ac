"""Wasted work in the report of ``iqcar analyze``: what it cost whom, and what helps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from iqcar.base.units import duration, percent

if TYPE_CHECKING:
    from iqcar.causes.wasted.wasted_work import WastedWork
    from iqcar.say.wasted_lines import WastedLine


def wasted_section(
    wasted: WastedWork, lines: Sequence[WastedLine], top: int
) -> RenderableType | None:
    """One line, what was costliest, and advice; nothing where no work was wasted."""
    if not len(wasted.tasks):
        return None
    shown = lines[: max(top, 1)]
    said = [wasted_sentence(wasted), *(f"- {line.sentence}" for line in shown)]
    if left := len(lines) - len(shown):
        said.append(f"- {left:,} more, of less cost, in the result of --json.")
    said += [f"{name[0].upper()}{name[1:]}: {advice}" for name, advice in wasted_advice(shown)]
    return Group(*(Text(text) for text in said))


def wasted_sentence(wasted: WastedWork) -> str:
    """Say how many attempts were of no use, and what part of all task time they took."""
    tasks = wasted.tasks
    if not len(tasks):
        return "No work was wasted: no task failed, was killed or ran again."
    again = int(tasks["again"].sum())
    repeats = f", {again:,} of them to do again what had been done" if again else ""
    return (
        f"{len(tasks):,} task attempt{'s' if len(tasks) != 1 else ''} of no use{repeats}: "
        f"{duration(float(tasks['task_ms'].sum()))} of task time, {percent(wasted.share)} of all. "
        "How much later queries ended is estimated; it overlaps with the time they lost waiting."
    )


def wasted_advice(lines: Sequence[WastedLine]) -> list[tuple[str, str]]:
    """Return name and advice of each cause that delayed a query noticeably, each once."""
    named = {line.cause_name: line.advice for line in lines if line.delayed}
    return list(named.items())
