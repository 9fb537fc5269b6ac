"""Follows contention from the query that waits to those that changed by themselves.

A source that waits longer itself holds what others wait for longer, too. Each source passes its
part on to its own sources, and keeps what changed in itself; parts that go in circles end where
something changed by itself (an absorbing chain).
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from iqcar.comparison.causes.stage_cause import StageCause
from iqcar.enums import ChangeKind

STEPS = 20
"""Hand-overs followed; what is left then is with whom it is."""
LEAST_PART = 0.02
"""Part of a wait below which it is not followed."""
SHARED = (ChangeKind.HOST, ChangeKind.ENVIRONMENT)


class Root(NamedTuple):
    """Where a chain ends: a query, and the cause beyond it if it is none of its own."""

    query: int
    shared: StageCause | None


class ContentionChains:
    """Chains of waits; ``reasons`` tells why a query changed, with shares."""

    def __init__(self, reasons: Callable[[int], list[tuple[StageCause, float]]]) -> None:
        self._reasons = reasons
        self._known: dict[int, tuple[dict[Root, float], dict[int, float]]] = {}

    def roots_of(
        self, sources: Sequence[tuple[int, float]], query: int
    ) -> list[tuple[Root, float]]:
        """Return where the parts of a query's sources end, the largest first.

        ``sources``: source categories and their parts. ``query``: the query that waits: what comes
        back to it stays with who handed it over.
        """
        ended: dict[Root, float] = defaultdict(float)
        moving = dict(sources)
        for step in range(STEPS):
            further: dict[int, float] = defaultdict(float)
            for source, part in moving.items():
                own, passed = self._outcome(source, query)
                if not passed or step == STEPS - 1 or part < LEAST_PART:
                    own, passed = own or {Root(source, None): 1.0}, {}
                    whole = sum(own.values())
                    own = {root: share / whole for root, share in own.items()}
                for root, share in own.items():
                    ended[root] += part * share
                for one, share in passed.items():
                    further[one] += part * share
            moving = further
        return sorted(ended.items(), key=lambda item: -item[1])

    def path(self, sources: Sequence[tuple[int, float]], root: Root, query: int) -> list[int]:
        """Return the shortest chain of queries from one of the sources to a root."""
        waiting = deque([source] for source, _ in sources)
        seen = {query}
        while waiting:
            path = waiting.popleft()
            if path[-1] == root.query:
                return path
            if path[-1] not in seen:
                seen.add(path[-1])
                _, passed = self._outcome(path[-1], query)
                waiting.extend([*path, one] for one in sorted(passed, key=lambda o: -passed[o]))
        return [root.query]

    def _outcome(self, source: int, query: int) -> tuple[dict[Root, float], dict[int, float]]:
        """Shares of a source's change that end with it, and that it hands over to others."""
        if source not in self._known:
            own: dict[Root, float] = defaultdict(float)
            passed: dict[int, float] = defaultdict(float)
            for cause, share in self._reasons(source):
                if cause.kind is ChangeKind.CONTENTION:
                    for other, part in cause.sources:
                        if other != source:
                            passed[other] += share * part
                else:
                    own[Root(source, cause if cause.kind in SHARED else None)] += share
            self._known[source] = own, passed
        own, passed = self._known[source]
        passed = {other: part for other, part in passed.items() if other != query}
        whole = sum(own.values()) + sum(passed.values())
        if whole <= 0:
            return {Root(source, None): 1.0}, {}
        return (
            {root: part / whole for root, part in own.items()},
            {other: part / whole for other, part in passed.items()},
        )
