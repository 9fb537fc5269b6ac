"""What plans did that came before, so that a plan like one of them need not be decoded.

A log of a dashboard or a service holds the same few queries thousands of times, with new numbers
each time. A plan is recognised by its bytes (:mod:`iqcar.logs.events.plan_bytes`), and only its
accumulators are taken from it; a short one is decoded, which takes no longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from iqcar.logs.events.fingerprint import MAX_LINE, has_such_numbers
from iqcar.logs.events.plan_bytes import CutLine, PlanPattern
from iqcar.logs.events.plan_name import location_in
from iqcar.logs.events.structs import NOT_FITTING, PlanNode, SqlStart

LEAST_BYTES = 4 << 10
"""Length of a line from which its plan is looked up: of a shorter one little is saved."""
LONG = 32 << 10
"""Length from which a plan is remembered when it comes for the first time: remembering a shorter
one takes longer than decoding it."""
_OFTEN = 3
"""Times that a shorter one comes before it is remembered. A batch of a stream has the same plan
twice, and the next one another."""
_MOST_BYTES = 16 << 20
"""Bytes of what is remembered of all known plans."""
_PER_ACCUMULATOR = 200
"""About how many bytes a known plan takes for each of its accumulators."""
_MOST_MET = 4096
"""So many plans that came are counted by their looks. 1 MB at most."""
_MOST_ALIKE = 4
"""So many plans of the same looks and length are remembered."""
_MOST_IN_VAIN = 8
"""So many plans of the same looks may turn out to be other ones, with other constants say; then no
more skeletons are computed for plans of these looks, which takes about as long as decoding one."""


class KnownPlan(NamedTuple):
    """What a plan told; its accumulators are given by their positions in its text."""

    plan_hash: str
    plan_name: str
    tables: str
    operators: str
    shown: list[int]
    """Accumulators in the table of metrics."""
    metrics: tuple[Any, ...]
    """Their nodes, names, units and factors; empty if there are none."""
    together: tuple[list[list[str]], list[int]]
    """From :meth:`iqcar.logs.events.operators.Operators.run_together`."""
    nanoseconds: list[int]
    scans: list[int]


class KnownPlans:
    """The plans of one log."""

    def __init__(self) -> None:
        self._patterns: dict[tuple[int, int], list[tuple[PlanPattern, KnownPlan]]] = {}
        """By length and looks."""
        self._known: dict[bytes, KnownPlan] = {}
        """By the skeletons of their patterns."""
        self._in_vain: dict[int, int] = {}
        """How many skeletons were unknown, by the looks of known plans."""
        self._met: dict[int, int] = {}
        """How often plans came that are not known, by their looks."""
        self._bytes = 0

    def find(self, plan: bytes) -> tuple[KnownPlan, list[int]] | None:
        """Return what a plan tells, and its accumulators; None if it has to be decoded."""
        if len(plan) > MAX_LINE:
            return None  # longer numbers may decide where a text is cut
        looks = _looks_of(plan)
        for pattern, known in self._patterns.get((len(plan), looks), ()):
            accumulators = pattern.read(plan)
            if accumulators is not None:
                return known, accumulators
        in_vain = self._in_vain.get(looks, _MOST_IN_VAIN)
        if in_vain >= _MOST_IN_VAIN:
            return None
        pattern = PlanPattern(plan)
        of_skeleton = self._known.get(pattern.skeleton)
        accumulators = pattern.read(plan)
        if of_skeleton is None or accumulators is None:
            self._in_vain[looks] = in_vain + 1
            return None
        self.add(plan, pattern, of_skeleton)
        return of_skeleton, accumulators

    def wants(self, plan: bytes) -> bool:
        """Tell whether a plan that is not known is worth remembering, and note that it came."""
        if len(plan) > MAX_LINE:
            return False
        looks = _looks_of(plan)
        if len(self._met) >= _MOST_MET:
            self._met.clear()
        times = self._met[looks] = self._met.get(looks, 0) + 1
        alike = self._patterns.get((len(plan), looks), ())
        return (
            (len(plan) >= LONG or times >= _OFTEN)
            and len(alike) < _MOST_ALIKE
            and self._in_vain.get(looks, 0) < _MOST_IN_VAIN
        )

    def add(self, plan: bytes, pattern: PlanPattern, known: KnownPlan) -> None:
        """Remember what a plan told."""
        looks = _looks_of(plan)
        size = pattern.size + _PER_ACCUMULATOR * len(pattern.accumulators)
        if self._bytes + size > _MOST_BYTES:
            for held in (self._patterns, self._known, self._in_vain):
                held.clear()
            self._bytes = 0
        self._known[pattern.skeleton] = known
        self._in_vain.setdefault(looks, 0)
        alike = self._patterns.setdefault((len(plan), looks), [])
        if len(alike) < _MOST_ALIKE:
            self._bytes += size
            alike.append((pattern, known))


def _looks_of(plan: bytes) -> int:
    """Return what plans have in common that differ in digits only."""
    return hash(plan.translate(None, b"0123456789"))


def pattern_of(cut: CutLine, event: SqlStart, nodes: Sequence[PlanNode]) -> PlanPattern | None:
    """Return a plan's pattern if all plans of that tell the same but for their accumulators.

    Parameters
    ----------
    cut : a line with the plan.
    event : decoded from the whole line.
    nodes : those of its plan, as :func:`~iqcar.logs.events.fingerprint.nodes_of` returns them.
    """
    names = [node.name for node in nodes]
    names += [location_in(node.text) for node in nodes if not node.children]
    names += [text for node in nodes for one in node.metrics for text in (one.name, one.type)]
    if has_such_numbers("\0".join(names)) or not _is_all_but_plan(cut.rest, event):
        return None
    pattern = PlanPattern(cut.plan)
    declared = sorted(metric.id for node in nodes for metric in node.metrics)
    is_whole = declared == sorted(pattern.accumulators) and len(set(declared)) == len(declared)
    return pattern if is_whole else None


def _is_all_but_plan(rest: bytes, event: SqlStart) -> bool:
    """Tell whether a line was cut where its plan ends: else something is missing from the rest."""
    try:
        found = msgspec.json.decode(rest, type=SqlStart)
    except NOT_FITTING:
        return False
    expected = msgspec.structs.replace(event, plan=PlanNode())
    return msgspec.json.encode(found) == msgspec.json.encode(expected)
