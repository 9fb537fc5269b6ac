"""Says what a YARN resource manager adds to event logs: waits before applications ran."""

from __future__ import annotations

from collections import Counter
from math import isfinite

from iqcar.base.units import duration, percent, printable, short
from iqcar.logs.find.resource_manager import YarnApplication
from iqcar.logs.text import redact_text
from iqcar.model.waits.pending import Pending, YarnWaits
from iqcar.say.section import Section, columns

NAME_WIDTH = 40
REASON_WIDTH = 160
"""Characters shown of a name, and of what the manager says of an application that waits."""
MOSTLY_HELD = 0.5
"""Share of the memory of the nodes from which on the cluster, not a queue's limit, was short."""


def yarn_section(yarn: YarnWaits | None, most: int) -> Section:
    """Show who waited for a first container, and who held containers meanwhile."""
    if yarn is None:
        return Section("yarn", "Waits before applications ran")
    return Section(
        "yarn",
        "Waits before applications ran",
        sentence=yarn_sentence(yarn),
        columns=columns(
            "application:name | queue:name | waited:time | state | of the cluster held:share",
            "who held containers:times | their queues:times",
        ),
        rows=tuple(map(_row, yarn.pending[:most])),
        caption="Waits for the container of an application's master (5 s and more)",
        notes=tuple(_notes(yarn, most)),
    )


def yarn_sentence(yarn: YarnWaits) -> str:
    """Say which application waited longest, for whom."""
    if not yarn.pending:
        return f"No application that {_place(yarn)} knows waited long for its first container."
    worst = yarn.pending[0]
    one = worst.application
    said = f"{_name(one)} (queue {_shown(one.queue)}) "
    said += "has been waiting" if one.waits else "waited"
    said += f" {duration(worst.wait_ms)} for its first container"
    if worst.holders:
        first = worst.holders[0]
        other = first.application
        said += (
            f", {duration(first.lost_ms)} of that put down to {_name(other)} (queue "
            f"{_shown(other.queue)}), which held most"
        )
    else:
        said += "; no other application is known to have held containers: it started slowly, or "
        said += "its queue has a limit"
    if worst.holders and worst.held < MOSTLY_HELD:
        said += f"; the containers of others took {percent(worst.held)} of the cluster's memory: "
        said += "look at the limits of its queue, too"
    more = len(yarn.pending) - 1
    others = f" {more:,} more waited." if more > 1 else " Another one waited." if more else ""
    return f"{said}.{others}"


def _row(one: Pending) -> tuple[object, ...]:
    queues: Counter[str] = Counter()
    names: Counter[str] = Counter()
    for holder in one.holders:
        queues[_shown(holder.application.queue)] += holder.lost_ms  # type: ignore[assignment]
        names[_name(holder.application)] += holder.lost_ms  # type: ignore[assignment]
    rest = {"others": one.rest_ms} if one.rest_ms else {}
    state = "waits still" if one.application.waits else "has no log here" if one.app < 0 else ""
    return (
        _name(one.application),
        _shown(one.application.queue),
        one.wait_ms,
        state,
        one.held if one.held == one.held else None,
        {**names, **rest},
        {**queues, **rest},
    )


def _notes(yarn: YarnWaits, most: int) -> list[str]:
    notes = []
    if (left := len(yarn.pending) - most) > 0:
        notes.append(f"{left:,} more in the result of --json.")
    for one in yarn.pending[:most]:
        if one.application.waits and one.application.diagnostics:
            said = short(redact_text(one.application.diagnostics), REASON_WIDTH)
            notes.append(f"{_name(one.application)} waits still: {said.rstrip('.')}.")
    if yarn.pending:
        notes.append(
            "No query ran in these waits, so they are in no query's lost time. Memory that "
            "applications held is the resource manager's sum, spread over time as their logs say, "
            "else evenly."
        )
    if isfinite(yarn.memory_mb + yarn.cores + yarn.nodes):
        count = "1 node" if yarn.nodes == 1 else f"{yarn.nodes:,.0f} nodes"
        notes.append(
            f"{_place(yarn)} has {count} now: {yarn.memory_mb / 1024:,.0f} GiB, "
            f"{yarn.cores:,.0f} cores."
        )
    if yarn.unknown:
        what = "1 application" if yarn.unknown == 1 else f"{yarn.unknown:,} applications"
        notes.append(f"{_place(yarn)} does not know {what} of these logs (any more).")
    return notes


def _place(yarn: YarnWaits) -> str:
    return printable(yarn.url.partition("://")[2])


def _name(one: YarnApplication) -> str:
    return _shown(one.name) or _shown(one.application_id)


def _shown(text: str) -> str:
    return short(redact_text(text), NAME_WIDTH)
