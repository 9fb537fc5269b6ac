"""Templates of task lines: what all lines of one spelling share, and where they differ.

Spark writes the same keys in the same order with every task. So a line that was decoded once tells
how to read the next ones: compare the text between the values, take the values. A template is
tried before it is used, on a line that differs from all others in every value.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from iqcar.eventlog.events.event_names import TASK_END, TASK_START
from iqcar.eventlog.tasks.task_columns import NUMBERS
from iqcar.eventlog.tasks.task_lines import ACCUMULABLES, INFO, INFO_BYTES, INFO_WITHIN, METRICS

if TYPE_CHECKING:
    from collections.abc import Iterator

COLUMN_OF_KEY: dict[bytes, str] = {
    b"Stage ID": "stage_id",
    b"Stage Attempt ID": "stage_attempt",
    b"Task ID": "task_id",
    b"Index": "index",
    b"Attempt": "attempt",
    b"Launch Time": "launch_ms",
    b"Getting Result Time": "getting_result_at",
    b"Finish Time": "finish_ms",
    b"Speculative": "speculative",
    b"Failed": "failed",
    b"Killed": "killed",
    b"Executor Deserialize Time": "deserialize_ms",
    b"Executor Deserialize CPU Time": "deserialize_cpu_ms",
    b"Executor Run Time": "run_ms",
    b"Executor CPU Time": "cpu_ms",
    b"Peak Execution Memory": "peak_memory_bytes",
    b"Result Size": "result_bytes",
    b"JVM GC Time": "gc_ms",
    b"Result Serialization Time": "result_serialize_ms",
    b"Memory Bytes Spilled": "memory_spilled_bytes",
    b"Disk Bytes Spilled": "disk_spilled_bytes",
    b"Remote Blocks Fetched": "remote_blocks",
    b"Local Blocks Fetched": "local_blocks",
    b"Fetch Wait Time": "fetch_wait_ms",
    b"Remote Bytes Read": "remote_bytes",
    b"Local Bytes Read": "local_bytes",
    b"Total Records Read": "shuffle_read_records",
    b"Shuffle Bytes Written": "shuffle_write_bytes",
    b"Shuffle Write Time": "shuffle_write_ms",
    b"Shuffle Records Written": "shuffle_write_records",
    b"Bytes Read": "input_bytes",
    b"Records Read": "input_records",
    b"Bytes Written": "output_bytes",
    b"Records Written": "output_records",
}
"""Keys of numbers and truth values, and the columns they fill."""

TEXT_KEYS = (b"Executor ID", b"Host", b"Locality")
"""Keys of the texts that are read, in the order of the columns of text."""

MAX_DIGITS = 15
"""Longer integers are left to the decoder: a float does not hold them exactly."""

TRUTH = 100
"""Added to the column of a truth value. Columns are those of NUMBERS; one more takes the rest."""
TEXT = 200
"""Added to the place of a text in TEXT_KEYS; one more takes the rest."""
GAP, BLOCKS, END = 300, 301, 302
"""What else follows a literal: the accumulables up to the next one, updated blocks up to the end,
the end."""
END_OF_BLOCKS = b"]}}"

END_START = b'{"Event":"' + TASK_END.encode() + b'"'
START_START = b'{"Event":"' + TASK_START.encode() + b'"'
_VALUE = re.compile(
    rb'"(?P<key>[^"\\]*)":(?:(?P<number>\d{1,%d})|(?P<truth>true|false)|"(?P<text>[^"\\]*)")(?=[,}])'
    % MAX_DIGITS
)
_UPDATED_BLOCKS = b'"Updated Blocks":['
_IGNORED_TEXT = b"Task Type"
"""A text that differs from task to task and is not read; any other text is part of the template."""


class Template(NamedTuple):
    """What lines of one spelling have in common.

    Attributes
    ----------
    is_end : bool
        Whether it is of task ends; else of task starts.
    steps : tuple of (bytes, int)
        A literal, and what follows it.
    """

    is_end: bool
    steps: tuple[tuple[bytes, int], ...]

    def fills(self) -> Iterator[bytes]:
        """Yield lines of this template with another value in every place, one true at a time."""
        truths = [place for place, (_, what) in enumerate(self.steps) if TRUTH <= what < TEXT]
        for true in truths or [0]:
            yield b"".join(
                literal + _filler(place, what, place == true)
                for place, (literal, what) in enumerate(self.steps)
            )


def _filler(place: int, what: int, truth: bool) -> bytes:
    if what < TRUTH:
        return b"%d" % (1000 + place)
    if what < TEXT:
        return b"true" if truth else b"false"
    return {GAP: b"]}", BLOCKS: END_OF_BLOCKS, END: b""}.get(what, b"text %d" % place)


def template_of(line: bytes) -> Template | None:
    """Make a template of a line; None if Spark 2 and later spell no task that went well like that.

    Examples
    --------
    >>> template_of(b'{"Event":"SparkListenerTaskStart","Stage ID":7}').steps
    ((b'{"Event":"SparkListenerTaskStart","Stage ID":', 0), (b'}', 302))
    """
    if line.startswith(START_START):
        return Template(False, _steps(line, END))
    info = line.find(INFO, *INFO_WITHIN) if line.startswith(END_START) else -1
    start = line.find(ACCUMULABLES, info, info + INFO_BYTES) if info >= 0 else -1
    end = line.find(METRICS, start) if start >= 0 else -1
    if end < 0:
        return None
    tail, blocks, _ = line[end:].partition(_UPDATED_BLOCKS)
    last = _steps(tail + blocks, BLOCKS if blocks else END)
    return Template(True, _steps(line[: start + len(ACCUMULABLES)], GAP) + last)


def _steps(text: bytes, then: int) -> tuple[tuple[bytes, int], ...]:
    found, done = [], 0
    for place, what in _values(text):
        found.append((text[done : place.start], what))
        done = place.stop
    return (*found, (text[done:], then))


def _values(text: bytes) -> list[tuple[slice, int]]:
    """Find the values that differ from line to line, and what to do with each."""
    found = []
    for match in _VALUE.finditer(text):
        key, kind = match["key"], str(match.lastgroup)
        if kind == "text":
            if key not in TEXT_KEYS and key != _IGNORED_TEXT:
                continue
            what = TEXT + (TEXT_KEYS.index(key) if key in TEXT_KEYS else len(TEXT_KEYS))
        else:
            column = COLUMN_OF_KEY.get(key)
            what = NUMBERS.index(column) if column else len(NUMBERS)
            what += TRUTH if kind == "truth" else 0
        found.append((slice(*match.span(kind)), what))
    return found
