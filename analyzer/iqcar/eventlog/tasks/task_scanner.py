"""Task lines read by compiled code, in place: the path that the bulk of a large log takes.

Only lines that fit a template (:mod:`iqcar.eventlog.tasks.task_templates`) are read here; any
other is
left to :mod:`iqcar.eventlog.tasks.task_lines`. What both read is the same, to the last bit; the
tests
hold them against each other, and every template is held against the decoder before it is used.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
from numba import njit

from iqcar.eventlog.events.lines import Block
from iqcar.eventlog.events.structs import NOT_FITTING, TaskEnd, TaskStart
from iqcar.eventlog.tasks.task_columns import NUMBERS, TaskColumns
from iqcar.eventlog.tasks.task_lines import METRICS
from iqcar.eventlog.tasks.task_templates import (
    BLOCKS,
    END_START,
    GAP,
    MAX_DIGITS,
    START_START,
    TEXT,
    TEXT_KEYS,
    TRUTH,
    Template,
    template_of,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_TEMPLATES = 16
"""Templates tried at most: a log has about three spellings."""

_CANDIDATES = 8
"""Lines of a block at most that are asked for a template at a time."""

_NAN_OR_ZERO = np.array(
    [
        0.0 if name in ("stage_attempt", "speculative", "failed", "killed") else np.nan
        for name in (*NUMBERS, "")
    ]
)
"""What a column holds where a line lacks its key, as the decoder has it."""
_TASK_ID = NUMBERS.index("task_id")


class Scanned(NamedTuple):
    """What was read of some lines; one row per line, undefined in lines that fitted no template."""

    template: NDArray[np.int64]
    """Number of the template that fitted, −1 for none."""
    numbers: NDArray[np.float64]
    texts: NDArray[np.uint64]
    """One hash of all texts of a line."""
    spans: NDArray[np.int64]
    """Where each text starts and ends, two columns per entry of :data:`TEXT_KEYS` and two more."""
    accumulables: NDArray[np.int64]
    """Where the accumulables start and end."""

    @classmethod
    def empty(cls, lines: int) -> Scanned:
        """Return room for a number of lines."""
        return cls(
            np.full(lines, -1, np.int64),
            np.empty((lines, len(NUMBERS) + 1)),
            np.empty(lines, np.uint64),
            np.empty((lines, 2 * len(TEXT_KEYS) + 2), np.int64),
            np.empty((lines, 2), np.int64),
        )


class TaskScanner:
    """Reads task starts and ends, and learns how this log spells them."""

    def __init__(self) -> None:
        self._templates: list[Template] = []
        self._tried: set[Template] = set()
        self._set_templates([])

    def scan(self, block: Block) -> tuple[Scanned, NDArray[np.int64], NDArray[np.int64]]:
        """Read the lines of a block; also return the rows of task starts and of task ends."""
        found = Scanned.empty(len(block))
        self._match(block, found)
        while len(self._tried) < MAX_TEMPLATES and self._learn(block, found):
            self._match(block, found)
        kind = self._is_end[found.template]
        return found, np.flatnonzero(kind == 0), np.flatnonzero(kind == 1)

    def _match(self, block: Block, found: Scanned) -> None:
        buffer = np.frombuffer(block.text, np.uint8)
        _match_lines(buffer, block.starts, block.ends, *self._compiled, _NAN_OR_ZERO, *found)

    def _learn(self, block: Block, found: Scanned) -> bool:
        """Make a template of the first line that should have one; False if there is none."""
        rest = np.flatnonzero(found.template < 0).tolist()
        starts = (END_START, START_START)
        unread = (row for row in rest if block.text.startswith(starts, block.starts[row]))
        for row in islice(unread, _CANDIDATES):
            template = template_of(block.text[block.starts[row] : block.ends[row]])
            if template is not None and template not in self._tried:
                self._tried.add(template)
                if holds(template):
                    self._set_templates([*self._templates, template])
                    return True
        return False

    def _set_templates(self, templates: list[Template]) -> None:
        self._templates = templates
        literals = b"".join(literal for one in templates for literal, _ in one.steps)
        steps = [(len(literal), what) for one in templates for literal, what in one.steps]
        stops = np.cumsum([length for length, _ in steps], dtype=np.int64)
        self._compiled = (
            np.frombuffer(literals, np.uint8),
            np.array(
                [
                    (stop - length, stop, what)
                    for stop, (length, what) in zip(stops, steps, strict=True)
                ],
                np.int64,
            ).reshape(-1, 3),
            np.cumsum([0, *(len(one.steps) for one in templates)]),
            np.zeros(len(templates), np.int64),
        )
        # The last one is that of lines without a template, whose number is −1.
        self._is_end = np.array([*(one.is_end for one in templates), -1])


def holds(template: Template) -> bool:
    """Tell whether a template reads what the decoder reads, where every value is another one."""
    scanner = TaskScanner()
    scanner._set_templates([template])
    return all(_reads_alike(scanner, line, template.is_end) for line in template.fills())


def _reads_alike(scanner: TaskScanner, line: bytes, is_end: bool) -> bool:
    found = Scanned.empty(1)
    scanner._match(Block.of(line + b"\n"), found)
    if found.template[0] < 0:
        return False
    decoded, scanned = TaskColumns(), TaskColumns()
    try:
        if not is_end:
            start = msgspec.json.decode(line, type=TaskStart)
            return start.info.task_id == float(found.numbers[0, _TASK_ID])
        decoded.add([msgspec.json.decode(line, type=TaskEnd)])
    except NOT_FITTING:
        return False
    scanned.add_scanned(line, found.numbers, found.texts, found.spans)
    ours, theirs = scanned.columns(), decoded.columns()
    return scanned.codes == decoded.codes and all(
        np.array_equal(ours[name], theirs[name], equal_nan=True) for name in ours
    )


_METRICS = np.frombuffer(METRICS, np.uint8)
_PIECE = 16
"""Bytes compared together, in a loop that the compiler turns into vector instructions."""
_WORDS = np.frombuffer(b"truefalse", np.uint8)
_SLACK = 48
"""The end of a line, from the metrics on, is about as long as that of the line before."""
_PRIME, _OFFSET = np.uint64(1099511628211), np.uint64(14695981039346656037)
"""Of the hash of texts (FNV-1a, 64 bits)."""


@njit(cache=True, nogil=True)
def _match_lines(
    buffer: Any,
    starts: Any,
    ends: Any,
    literals: Any,
    steps: Any,
    bounds: Any,
    tails: Any,
    missing: Any,
    templates: Any,
    numbers: Any,
    texts: Any,
    spans: Any,
    accumulables: Any,
) -> None:
    for row in range(len(starts)):
        for template in range(len(bounds) - 1):
            if templates[row] >= 0:
                break
            at, end = starts[row], ends[row]
            texts[row] = _OFFSET
            for step in range(bounds[template], bounds[template + 1]):
                first, last, what = steps[step, 0], steps[step, 1], steps[step, 2]
                if at + last - first > end or not _same(buffer, at, literals, first, last):
                    break
                at += last - first
                if step == bounds[template]:
                    # Loops, because numba takes a second to compile what would replace them.
                    for column in range(len(missing)):
                        numbers[row, column] = missing[column]
                    for column in range(spans.shape[1]):
                        spans[row, column] = 0
                if what < TRUTH:
                    number, digits = 0, at
                    while at < end and 48 <= buffer[at] <= 57:
                        number = number * 10 + (np.int64(buffer[at]) - 48)
                        at += 1
                    numbers[row, what] = number
                    digits = at - digits
                    if not 1 <= digits <= MAX_DIGITS or (digits > 1 and buffer[at - digits] == 48):
                        break
                elif what < TEXT:
                    truth = buffer[at] == 116
                    word = _WORDS[:4] if truth else _WORDS[4:]
                    if not _same(buffer, at, word, 0, len(word)):
                        break
                    numbers[row, what - TRUTH] = truth
                    at += len(word)
                elif what < GAP:
                    spans[row, 2 * (what - TEXT)] = at
                    while at < end and 32 <= buffer[at] < 128:
                        if buffer[at] == 34 or buffer[at] == 92:
                            break
                        if what < TEXT + len(TEXT_KEYS):
                            texts[row] = (texts[row] ^ np.uint64(buffer[at])) * _PRIME
                        at += 1
                    texts[row] = (texts[row] ^ np.uint64(what)) * _PRIME
                    spans[row, 2 * (what - TEXT) + 1] = at
                elif what == GAP:
                    place = _find_metrics(buffer, at, max(end - tails[template] - _SLACK, at), end)
                    if place < 0:
                        break
                    accumulables[row, 0], accumulables[row, 1] = at, place
                    tails[template] = end - place
                    at = place
                elif what == BLOCKS:
                    some = at < end - 3 and buffer[at] == 123
                    if (some or at == end - 3) and (
                        buffer[end - 3] == 93 and buffer[end - 2] == 125 and buffer[end - 1] == 125
                    ):
                        templates[row] = template
                elif at == end:
                    templates[row] = template


@njit(cache=True, nogil=True)
def _same(buffer: Any, at: int, literals: Any, first: int, last: int) -> bool:
    place = first
    while place < last:
        if last - place < _PIECE <= last - first:
            at -= place - (last - _PIECE)
            place = last - _PIECE
        if last - place >= _PIECE:
            one, other = buffer[at : at + _PIECE], literals[place : place + _PIECE]
            differs = False
            for offset in range(_PIECE):
                differs |= one[offset] != other[offset]
            length = _PIECE
        else:
            differs = buffer[at] != literals[place]  # the newline at the latest
            length = 1
        if differs:
            return False
        at += length
        place += length
    return True


@njit(cache=True, nogil=True)
def _find_metrics(buffer: Any, first: int, at: int, end: int) -> int:
    """Look from a place on, and where that is in vain from the first place on."""
    last = len(_METRICS) - 1
    while at + last < end:
        if buffer[at] == 44 and buffer[at + last] == 123:
            offset = 1
            while offset < last and buffer[at + offset] == _METRICS[offset]:
                offset += 1
            if offset == last:
                return at
        at += 1
        if at + last >= end and first >= 0:
            at, first = first, -1
    return -1
