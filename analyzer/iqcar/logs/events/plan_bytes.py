"""Recognises, by its bytes, a plan that came before with other numbers."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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
