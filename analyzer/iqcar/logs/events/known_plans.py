"""Plans seen before, and their joins whose sides are shuffled where one could be broadcast."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from iqcar.logs.events.operators import MAX_LINE, NO_OPERATORS, has_such_numbers, location_in
from iqcar.logs.events.structs import PlanNode, SqlStart
from iqcar.logs.events.task_structs import NOT_FITTING

_JOINS = ("SortMergeJoin", "ShuffledHashJoin")
_TYPE = re.compile(r"\], (Inner|Cross|LeftOuter|RightOuter|LeftSemi|LeftAnti|ExistenceJoin)\b")
_LEFT_TYPES, _RIGHT_TYPES = ("Inner", "Cross", "RightOuter"), ("RightOuter",)
"""Types of which Spark can build the left side, and of which it cannot build the right one."""
_HASHED = "Exchange hashpartitioning("
_ASKED_FOR = "REPARTITION"
"""In the text of an exchange that the user asked for: it stays whatever the join does."""
_NEEDING = 2
"""Operators above a join that need its partitioning: one window or join, or two aggregates, which
are the partial and the final one."""


class ShuffledJoin(NamedTuple):
    """A join, and the accumulators of the data sizes that its sides' exchanges wrote."""

    left: float
    right: float
    builds_left: bool
    """Whether its type lets Spark broadcast the left side."""
    builds_right: bool


def shuffled_joins(nodes: Sequence[PlanNode]) -> list[ShuffledJoin]:
    """Return the joins that would leave out an exchange if one side were broadcast.

    That is so where both sides are exchanged for the join alone: nothing above needs the same
    partitioning, and no other part of the plan reads what was exchanged.

    Parameters
    ----------
    nodes : as :func:`~iqcar.logs.events.operators.nodes_of` returns them.
    """
    if not any(node.name.startswith(_JOINS) for node in nodes) or any(
        node.name == "ReusedExchange" and _HASHED in node.text for node in nodes
    ):
        return []
    found = []
    stack = [(nodes[0], 0)]
    while stack:
        node, above = stack.pop()
        is_join = node.name.startswith(_JOINS)
        if is_join and above < _NEEDING and len(node.children) == 2:
            told = _TYPE.search(node.text)
            left, right = map(_exchanged, node.children)
            if told and left is not None and right is not None:
                builds = told[1] in _LEFT_TYPES, told[1] not in _RIGHT_TYPES
                found.append(ShuffledJoin(left, right, *builds))
        if node.name.endswith("Exchange"):
            above = 0
        elif is_join or node.name.startswith("Window"):
            above += _NEEDING
        elif node.name.endswith("Aggregate"):
            above += 1
        stack += [(child, above) for child in node.children]
    return found


def _exchanged(node: PlanNode) -> float | None:
    """Return the accumulator of what an exchange right below a join wrote; None without one."""
    while len(node.children) == 1 and (node.name == "Sort" or node.name.startswith(NO_OPERATORS)):
        node = node.children[0]
    if not node.text.startswith(_HASHED) or _ASKED_FOR in node.text:
        return None
    return next((one.id for one in node.metrics if one.name.startswith("data size")), None)


MOST_DIGITS = 15
"""Digits of a number that may differ: a float holds all of those exactly."""

_PLAN, _TIME = b'"sparkPlanInfo":', b'"time":'
_MOST_AFTER = 64 << 10
"""Bytes behind a plan: its time, and settings of its session."""
_PLAN_ID = b"[plan_id="
_ACCUMULATOR = b'Id":'
"""How the key ends after which accumulators stand."""
_DIGITS, _ZERO = b"0123456789", 48
_POWERS = 10 ** np.arange(MOST_DIGITS, dtype=np.int64)


class CutLine(NamedTuple):
    """A line with a plan, in two parts."""

    rest: bytes
    """The event, with an empty plan."""
    plan: bytes


def cut_line(line: bytes) -> CutLine | None:
    """Cut a line; return None if it is not spelled as Spark's.

    The plan may be more than that where ``"time":`` stands in something behind it.
    """
    at = line.find(_PLAN)
    start = at + len(_PLAN)
    start += line[start : start + 1] == b" "
    end = line.rfind(_TIME, max(start, len(line) - _MOST_AFTER))
    end = line.rfind(b"}", start, end) + 1 if end >= 0 else line.rfind(b"}", start)
    if at < 0 or line[start : start + 1] != b"{" or line[end - 1 : end] != b"}":
        return None
    return CutLine(line[:start] + b"{}" + line[end:], line[start:end])


class PlanPattern:
    """Plans that differ in numbers only, which have as many digits in each of them.

    These may differ: accumulators, attributes (``#12``), ids of plans (``[plan_id=12]``), and whole
    numbers between a blank and a closing bracket.

    Parameters
    ----------
    plan : one of the plans.

    Attributes
    ----------
    accumulators : those of that plan, in the order of its text; perhaps with numbers of other keys
        that end in ``Id``.
    skeleton : the same for plans whose numbers have more or fewer digits.
    """

    def __init__(self, plan: bytes) -> None:
        codes = np.frombuffer(plan, np.uint8)
        is_digit = np.zeros(len(codes) + 2, np.bool_)
        is_digit[1:-1] = codes - np.uint8(_ZERO) < len(_DIGITS)
        starts, ends = np.flatnonzero(is_digit[1:] != is_digit[:-1]).reshape(-1, 2).T
        inside = (starts > len(_ACCUMULATOR)) & (ends < len(codes))
        starts, ends = starts[inside], ends[inside]
        lengths = ends - starts
        before, after = codes[starts - 1], codes[ends]
        is_accumulator = (after == ord(",")) | (after == ord("}"))
        at = starts - (before == ord(" "))
        for back, code in enumerate(reversed(_ACCUMULATOR), start=1):
            is_accumulator &= codes[at - back] == code
        may_differ = is_accumulator | (before == ord("#"))
        may_differ |= (before == ord(" ")) & (after == ord(")"))
        for one in np.flatnonzero((before == ord("=")) & (after == ord("]"))):
            may_differ[one] = plan.endswith(_PLAN_ID, 0, starts[one])
        may_differ &= lengths <= MOST_DIGITS
        is_accumulator &= may_differ
        self._codes = codes
        self._places = _places(starts[may_differ], lengths[may_differ])
        self._is_fixed = np.ones(len(codes), np.bool_)
        self._is_fixed[self._places] = False
        self.skeleton = self._skeleton(starts[may_differ], lengths[may_differ])
        lengths = lengths[is_accumulator]
        self._digits = _places(starts[is_accumulator], lengths)
        self._first = np.cumsum(lengths) - lengths
        """Where each accumulator starts in :attr:`_digits`."""
        self._powers = _POWERS[np.repeat(lengths, lengths) - 1 - _places(0 * lengths, lengths)]
        self._is_long = lengths > 1
        self.accumulators = self.read(plan) or []

    def _skeleton(self, starts: NDArray[np.intp], lengths: NDArray[np.intp]) -> bytes:
        fixed = self._codes[self._is_fixed]
        places = starts + lengths - np.cumsum(lengths)
        digest = hashlib.sha256()
        for part in (np.array([len(fixed), len(places)]), fixed, places):
            digest.update(part.data)
        return digest.digest()

    @property
    def size(self) -> int:
        """About how many bytes this takes."""
        return 2 * len(self._codes) + 8 * (len(self._places) + 2 * len(self._digits))

    def read(self, plan: bytes) -> list[int] | None:
        """Return the accumulators of a plan; None if it is another one."""
        codes = np.frombuffer(plan, np.uint8)
        if len(codes) != len(self._codes):
            return None
        differs = codes != self._codes
        differs &= self._is_fixed
        if differs.any():
            return None
        if (codes[self._places] - np.uint8(_ZERO) >= len(_DIGITS)).any():
            return None
        digits = codes[self._digits] - np.uint8(_ZERO)
        if (self._is_long & (digits[self._first] == 0)).any():
            return None  # JSON has no such numbers
        numbers: list[int] = np.add.reduceat(digits * self._powers, self._first).tolist()
        return numbers


def _places(starts: NDArray[np.intp], lengths: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return all places of runs of so many bytes each, given where they start."""
    before = np.cumsum(lengths) - lengths
    places: NDArray[np.intp] = np.arange(lengths.sum()) + np.repeat(starts - before, lengths)
    return places


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
    joins: list[ShuffledJoin]


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
    nodes : those of its plan, as :func:`~iqcar.logs.events.operators.nodes_of` returns them.
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
