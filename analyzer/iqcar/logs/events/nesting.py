"""Bound how deep and how densely the JSON of a line nests, before any of it is decoded."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from iqcar.tables.arrays import Ints

MAX_DEPTH = 50_000
"""Depth of brackets of the deepest line that is decoded. A node of a plan takes two; plans of
thousands of joins exist."""

MAX_CONTAINERS = 1 << 21
"""Lists and objects in one line (2 M). In the longest line that is kept
(:data:`~iqcar.logs.events.lines.MAX_LINE_BYTES`) that is one in 32 bytes; Spark's smallest
takes 50. Each takes up to 250 bytes of memory."""

MAX_QUOTES = 1 << 23
"""Quotes up to which the depth of a line is told: their places take 64 MiB."""

_ESCAPED = re.compile(rb"\\.", re.DOTALL)
_QUOTE, _CLOSED = 2, 255
_MARKS = bytes(
    {34: _QUOTE, **dict.fromkeys(b"[{", 1), **dict.fromkeys(b"]}", _CLOSED)}.get(byte, 0)
    for byte in range(256)
)
"""What each byte does to the depth of brackets (255 is −1), or that it is a quote."""


class Brackets(NamedTuple):
    """The brackets of a line that stand in no text.

    Attributes
    ----------
    places : ndarray of shape (n,), int64; where they stand in the line.
    steps : ndarray of shape (n,), int8; 1 for one that opens, −1 for one that closes.
    depths : ndarray of shape (n,), int32; how many are open behind each.
    """

    places: Ints
    steps: Ints
    depths: Ints


def is_too_dense(line: bytes) -> bool:
    """Tell whether a line has more brackets than any that is decoded; those in texts count, too."""
    return len(line) > MAX_CONTAINERS and line.count(b"[") + line.count(b"{") > MAX_CONTAINERS


def is_too_deep(line: bytes) -> bool:
    """Tell whether a line nests deeper than any that is decoded, or is too dense to tell."""
    if line.count(b"[") + line.count(b"{") <= MAX_DEPTH:
        return False
    if is_too_dense(line) or line.count(b'"') > MAX_QUOTES:
        return True
    return int(brackets(line).depths.max(initial=0)) > MAX_DEPTH


def brackets(line: bytes) -> Brackets:
    """Find the brackets of a line; those in texts do not count."""
    text = _ESCAPED.sub(b"__", line) if b"\\" in line else line
    marks = np.frombuffer(text.translate(_MARKS), np.int8)
    places = np.flatnonzero(marks != 0)  # of booleans they are found four times as fast
    steps = marks[places]
    quotes = steps == _QUOTE
    outside = ~quotes & (np.cumsum(quotes, dtype=np.uint8) & 1 == 0)  # it overflows to even
    places, steps = places[outside], steps[outside]
    return Brackets(places, steps, np.cumsum(steps, dtype=np.int32))
