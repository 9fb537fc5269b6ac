"""Find applications that ran at the same time on the same hosts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from iqcar.apps.serve.applications import Application


class Neighbour(NamedTuple):
    """An application that shared hosts with another one for some time."""

    application: Application
    overlap_ms: float
    """Time that both ran."""
    hosts: tuple[str, ...]
    """Hosts known to have run both, in order."""


def neighbours_of(one: Application, others: Iterable[Application]) -> list[Neighbour]:
    """Find the applications that ran beside one, the longest beside it first.

    Hosts are compared by name. Before an application was analysed only some of its hosts are known
    (:class:`~iqcar.apps.serve.log_summary.Peek`), so a neighbour may be missing; an application
    whose start is unknown has none. One without an end counts as running until its last event.
    """
    start, end = one.start_ms, one.ran_until_ms
    if start is None or end is None:
        return []
    hosts = one.hosts
    found = []
    for other in others:
        other_start, other_end = other.start_ms, other.ran_until_ms
        if other.key == one.key or other_start is None or other_end is None:
            continue
        overlap = min(end, other_end) - max(start, other_start)
        if overlap > 0 and (shared := hosts & other.hosts):
            found.append(Neighbour(other, overlap, tuple(sorted(shared))))
    found.sort(key=lambda each: (-each.overlap_ms, each.application.name, each.application.key))
    return found
