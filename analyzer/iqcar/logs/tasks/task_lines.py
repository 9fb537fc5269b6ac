"""Decodes the lines of tasks of one block into rows of numbers, on one core or on several.

Most bytes of a task's end are accumulables, of which hardly any is needed. In the spelling that
Spark writes they are cut out before decoding, and searched as bytes. Any other spelling is decoded
whole. What comes out is bytes and plain lists, so that other processes can decode blocks too; they
import this file, so it must be quick to import.

Blocks are handed out in shared memory, and come back decoded in the same place. This process
decodes whatever the others have no room for, so no process waits for another; a helper that dies
costs nothing but the time to decode its blocks again.
"""

from __future__ import annotations

import mmap
import os
import re
import select
import struct
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from enum import IntEnum
from math import isnan, nan
from typing import Any, NamedTuple

import msgspec

from iqcar.base.workers import command, end, start
from iqcar.logs.events import task_structs as ev
from iqcar.logs.events.root_cause import root_cause
from iqcar.logs.events.task_structs import (
    BLOCK_UPDATED,
    TASK_END,
    TASK_RECORD,
    TASK_START,
    UNPERSIST,
)
from iqcar.logs.events.wait_metrics import Place, find_waits, value_of, wait_of


class Told(IntEnum):
    """Where a change of a block is told."""

    EVENT = 0
    TASK = 1
    UNPERSIST = 2


class BlockChange(NamedTuple):
    """A block's size in an executor's memory from a time on.

    time_ms: since the epoch; NaN where the log told no time yet.
    told: a Told.
    size: bytes; of UNPERSIST the number of the RDD, all of whose blocks go.
    """

    time_ms: float
    told: int
    executor: str
    block: str
    size: float


END_START = b'{"Event":"' + TASK_END.encode() + b'"'
START_START = b'{"Event":"' + TASK_START.encode() + b'"'
BLOCK_START = b'{"Event":"' + BLOCK_UPDATED.encode() + b'"'
UNPERSIST_START = b'{"Event":"' + UNPERSIST.encode() + b'"'
_INFO = b'"Reason":"Success"},"Task Info":{'
_ACCUMULABLES = b',"Accumulables":['
_METRICS = b'},"Task Metrics":{'
"""No text within a string can look like these: its quotes would be escaped. The bracket ends the
object before, which is cut out or is the info; for what is left of the line it ends the info.
Spark writes the accumulables last in the info: a field after them would be cut out too."""
_INFO_FROM, _INFO_TO = 60, 250
_LEAST_INFO_BYTES, _INFO_BYTES = 100, 800
"""Where a task's info is looked for, and its length at least and at most; else lines are decoded
whole."""
_LONG = 1 << 16
"""Longer lines (64 KiB) are the caller's, who counts their values: a task's has some thousand."""
_SLACK = 48
"""What stands before a task's accumulables, and the end of its line, from the metrics on, are about
as long as those of the line before; each is looked for so many bytes off, then anywhere."""

_PEAK_NAME = "internal.metrics.peakExecutionMemory"
_INTERNAL_NAME = "internal.metrics."
_PEAK = f'"Name":"{_PEAK_NAME}"'.encode()
_INTERNAL = f'"{_INTERNAL_NAME}'.encode()
RECORD = f'"Name":"{TASK_RECORD}","Update":"'.encode()
_NEWLINE, _SPACE, _ESCAPE = b"\n", 32, b"\\"
"""A record is an object with keys, and the quotes of keys are escaped within its text: where no
letter is escaped is no record, and one letter is found much faster than a text."""
_END_OF_RECORD = b'","'
"""Within a record every quote is escaped, so this comes first at its end."""
_SUCCESS, _RESUBMITTED = "Success", "Resubmitted"
_UPDATE = re.compile(rb'"Name":"[^"]*","Update":"?(\d{1,18})"?[,}]')
_DIGITS = re.compile(rb'^"?(\d+(?:\.\d+)?)"?$')

NUMBERS = (
    "stage_id", "stage_attempt", "peak_accumulable",
    "task_id", "index", "attempt", "launch_ms", "getting_result_at", "finish_ms",
    "speculative", "failed", "killed",
    "deserialize_ms", "deserialize_cpu_ms", "run_ms", "cpu_ms", "peak_memory_bytes",
    "result_bytes", "gc_ms", "result_serialize_ms", "memory_spilled_bytes", "disk_spilled_bytes",
    "remote_blocks", "local_blocks", "fetch_wait_ms", "remote_bytes", "local_bytes",
    "shuffle_read_records",
    "shuffle_write_bytes", "shuffle_write_ms", "shuffle_write_records",
    "input_bytes", "input_records", "output_bytes", "output_records",
)  # fmt: skip
"""Numbers of a row, in the units of the log and the order of :meth:`TaskDecoder._add`; one more is
the number of its texts. None from ``deserialize_ms`` on is ever negative."""
TEXTS = ("executor_id", "host", "locality", "reason")
_row = struct.Struct(f"{len(NUMBERS) + 1}d").pack
_wait = struct.Struct("4d").pack
_place = struct.Struct("3q").pack

_NOTHING = (
    ("shuffle_read", ev.NO_SHUFFLE_READ, ev.ShuffleRead(*[0.0] * 6)),
    ("shuffle_write", ev.NO_SHUFFLE_WRITE, ev.ShuffleWrite(*[0.0] * 3)),
    ("input", ev.NO_INPUT, ev.Input(0.0, 0.0)),
    ("output", ev.NO_OUTPUT, ev.Output(0.0, 0.0)),
)


class TaskBlock(msgspec.Struct, array_like=True, gc=False):
    """The tasks of one block.

    rows: float64 of shape (n_tasks, len(NUMBERS) + 1): a row per task end.
    texts: distinct TEXTS of tasks, which the last number of a row refers to.
    waits: float64 of shape (n, 4): row, kind, id and update of the metrics that tell waits, as
        :func:`~iqcar.logs.events.wait_metrics.find_waits` finds them.
    records: int64 of shape (n, 3): row of a task that the plugin recorded, the place where
        :data:`RECORD` starts in the text, and the end of the accumulables.
    listed: rows, and records that were decoded with their lines.
    failures: row of each task whose end is no success, why in a line, and the id of the executor
        from which it could not fetch shuffle output; of these texts empty what the log does not
        say.
    started: task id of each start without an end in the block, start and end of its line.
    starts: number of task starts.
    others: start and end of the lines that are of no task or block in a usual spelling.
    blocks: changes of blocks in storage memory, in the order of the log.
    now_ms: when the last of the tasks started or ended; NaN without any.
    bad_numbers: numbers of tasks that could not be read.
    """

    rows: bytes
    texts: list[tuple[str, str, str, str]]
    waits: bytes
    records: bytes
    listed: list[tuple[int, str]]
    failures: list[tuple[int, str, str]]
    started: list[tuple[float, int, int]]
    starts: int
    others: list[tuple[int, int]]
    blocks: list[BlockChange]
    now_ms: float
    bad_numbers: int


class TaskDecoder:
    """Decodes the tasks of blocks."""

    def __init__(self) -> None:
        self._decode = msgspec.json.Decoder(ev.TaskEnd).decode
        self._decode_start = msgspec.json.Decoder(ev.TaskStart).decode
        self._decode_block = msgspec.json.Decoder(ev.BlockUpdated).decode
        self._decode_unpersist = msgspec.json.Decoder(ev.UnpersistRdd).decode
        self._clear()

    def _clear(self) -> None:
        self._rows: list[bytes] = []
        self._codes: dict[tuple[str, str, str, str], int] = {}
        self._places: list[Place] = []
        self._waits: list[bytes] = []
        self._records: list[bytes] = []
        self._listed: list[tuple[int, str]] = []
        self._failures: list[tuple[int, str, str]] = []
        self._blocks: list[BlockChange] = []
        self._now = nan
        self._bad_numbers = 0

    def _taken(
        self, started: dict[float, tuple[int, int]], starts: int, others: list[tuple[int, int]]
    ) -> TaskBlock:
        block = TaskBlock(
            rows=b"".join(self._rows), texts=list(self._codes), waits=b"".join(self._waits),
            records=b"".join(self._records), listed=self._listed, failures=self._failures,
            started=[(task_id, *place) for task_id, place in started.items()], starts=starts,
            others=others, blocks=self._blocks, now_ms=self._now, bad_numbers=self._bad_numbers,
        )  # fmt: skip
        self._clear()
        return block

    def block_of(self, tasks: list[ev.TaskEnd]) -> TaskBlock:
        """Make rows of tasks whose lines were decoded otherwise."""
        for task in tasks:
            self._add_whole(task)
        return self._taken({}, 0, [])

    def decode(self, text: bytes) -> TaskBlock:
        """Decode the tasks of a block of lines; lines that do not fit are left to the caller."""
        find, startswith = text.find, text.startswith
        decode, decode_start, add = self._decode, self._decode_start, self._add
        rows, place = self._rows, self._places.append
        started: dict[float, tuple[int, int]] = {}
        starts, before, head, tail, escape = 0, 0, 0, 0, -1
        others: list[tuple[int, int]] = []
        start, end = 0, find(_NEWLINE)
        while end >= 0:
            try:
                if end - start > _LONG:
                    others.append((start, end))
                elif startswith(END_START, start):
                    first = find(_ACCUMULABLES, start + head - _SLACK, start + head + _SLACK)
                    last = find(_METRICS, end - tail - _SLACK, end)
                    if not (start < first < last and startswith(_INFO, start + before)):
                        info, first, last = _pieces(text, start, end)
                        before = info - start
                    if last < 0:
                        task = decode(text[start:end])
                        self._add_whole(task)
                    else:
                        head, tail = first - start, end - last
                        task = decode(text[start:first] + text[last:end])
                        if escape < first:
                            escape = find(_ESCAPE, first)
                            escape = escape if escape >= 0 else len(text)
                        if escape < last:
                            at = escape - len(RECORD) - 1
                            if at < first or not startswith(RECORD, at):
                                at = find(RECORD, first, last)
                            if at >= 0:
                                self._records.append(_place(len(rows), at, last))
                        m = task.metrics
                        place((len(rows), task.stage_id, m.run, first, last))
                        peak = m.peak_memory
                        add(task, nan if peak == peak else _peak_memory(text, first, last))
                    if started:
                        started.pop(task.info.task_id, None)
                elif startswith(START_START, start):
                    begun = decode_start(text[start:end]).info
                    started[begun.task_id] = (start, end)
                    self._now = begun.launch
                    starts += 1
                elif startswith(BLOCK_START, start):
                    self._blocks.append(update_of(self._decode_block(text[start:end]), self._now))
                elif startswith(UNPERSIST_START, start):
                    gone = self._decode_unpersist(text[start:end])
                    self._blocks.append(unpersisted(gone, self._now))
                elif text[start] > _SPACE or text[start:end].strip():
                    others.append((start, end))
            except ev.NOT_FITTING:
                line = text[start:end]
                if not (startswith(END_START, start) and self._add_damaged(line)):
                    others.append((start, end))
            start = end + 1
            end = find(_NEWLINE, start)
        self._waits.append(find_waits(text, self._places).tobytes())
        return self._taken(started, starts, others)

    def _add(self, task: ev.TaskEnd, peak: float) -> None:
        i, m = task.info, task.metrics
        if m.host_name:
            m = _settled(m)
        self._now = i.finish
        if m.blocks:
            executor, finish = i.executor_id, i.finish
            self._blocks += [
                BlockChange(finish, Told.TASK, executor, one.block, _in_memory(one.status))
                for one in m.blocks
            ]
        r, w, come, gone = m.shuffle_read, m.shuffle_write, m.input, m.output
        # Where a stage runs again for some partitions, Spark's index counts only those.
        index = i.partition if i.partition >= 0 else i.index
        texts = (i.executor_id, i.host, i.locality, task.reason.reason)
        code = self._codes.setdefault(texts, len(self._codes))
        self._rows.append(
            _row(
                task.stage_id, task.stage_attempt, peak if m is not ev.NO_METRICS else nan,
                i.task_id, index, i.attempt, i.launch, i.getting_result, i.finish,
                i.speculative, i.failed, i.killed,
                m.deserialize, m.deserialize_cpu, m.run, m.cpu, m.peak_memory,
                m.result_bytes, m.gc_time, m.result_serialize, m.memory_spilled, m.disk_spilled,
                r.remote_blocks, r.local_blocks, r.fetch_wait, r.remote_bytes, r.local_bytes,
                r.records,
                w.bytes_written, w.write_time, w.records,
                come.bytes_read, come.records, gone.bytes_written, gone.records,
                code,
            )
        )  # fmt: skip

    def _add_whole(self, task: ev.TaskEnd) -> None:
        """Add a task with what is needed from its accumulables, decoded one by one."""
        row = len(self._rows)
        peak = nan
        accumulables = _list(task.info.accumulables)
        for one in accumulables:
            name = one.name or ""
            if name.startswith(_INTERNAL_NAME):
                peak = 0.0 if isnan(peak) else peak
            digits = _DIGITS.match(bytes(one.update))
            value = float(digits.group(1)) if digits else 0.0
            kind = wait_of(name)
            told = None if kind is None else value_of(bytes(one.update))
            if kind is not None and told is not None:
                self._waits.append(_wait(row, kind, one.id, told))
            elif name == _PEAK_NAME:
                peak = value
        if task.reason.reason != _RESUBMITTED:  # it repeats the end of an attempt
            record = _listed_record(accumulables) or _listed_record(_list(task.reason.updates))
            if record:
                self._listed.append((row, record))
        if task.reason.reason not in (_SUCCESS, ""):
            self._failures.append((row, *_why(task.reason)))
        self._add(task, peak if isnan(task.metrics.peak_memory) else nan)

    def _add_damaged(self, line: bytes) -> bool:
        """Add what fits of a task that does not fit as a whole; return whether it is one."""
        from iqcar.logs.events.lenient import BadNumbers, fit, parse

        try:
            event = parse(line)
        except ValueError:
            return False
        if not isinstance(event, dict) or event.get("Event") != TASK_END:
            return False
        bad = BadNumbers()
        self._add_whole(fit(ev.TaskEnd, event, bad))
        self._bad_numbers += bad.count
        return True


def update_of(event: ev.BlockUpdated, now_ms: float) -> BlockChange:
    """Return the change that an event of a block tells."""
    one = event.info
    return BlockChange(now_ms, Told.EVENT, one.manager.executor_id, one.block, _in_memory(one))


def _in_memory(block: ev.BlockInfo | ev.BlockStatus) -> float:
    return block.bytes if block.level.in_memory else 0.0


def unpersisted(event: ev.UnpersistRdd, now_ms: float) -> BlockChange:
    """Return the change that all blocks of an RDD left memory."""
    return BlockChange(now_ms, Told.UNPERSIST, "", "", event.rdd)


def _pieces(text: bytes, start: int, end: int) -> tuple[int, int, int]:
    """Return where a task's info, its accumulables and what follows them start in a line.

    The last is -1 where the line is in another spelling, or of a task that did not succeed.
    """
    info = text.find(_INFO, start + _INFO_FROM, start + _INFO_TO)
    if info < 0:
        return start, -1, -1
    first = text.find(_ACCUMULABLES, info + _LEAST_INFO_BYTES, info + _INFO_BYTES)
    return info, first, text.find(_METRICS, first, end) if first >= 0 else -1


def _settled(metrics: ev.Metrics) -> ev.Metrics:
    """Set absent groups of metrics to zero where Spark leaves out what was not used.

    Spark 1.x writes shuffle, input and output metrics only for tasks that had any, and it is the
    only one that writes ``Host Name``. Spark 2 and later always write them: absent there means
    unknown.
    """
    zeros = {name: zero for name, none, zero in _NOTHING if getattr(metrics, name) is none}
    return msgspec.structs.replace(metrics, **zeros) if zeros else metrics


def _peak_memory(text: bytes, start: int, end: int) -> float:
    """Find peak memory, which before 3.1 is only an accumulable, left out where it is zero."""
    at = text.find(_PEAK, start, end)
    if at >= 0:
        update = _UPDATE.match(text, at)
        return float(update.group(1)) if update else nan
    return 0.0 if text.find(_INTERNAL, start, end) >= 0 else nan


def _why(reason: ev.Reason) -> tuple[str, str]:
    """Return why an attempt did not succeed, in a line, and from whom it could not fetch."""
    said = reason.killed_for or reason.lost_for or reason.message or reason.stack_trace
    source = reason.fetched_from.executor_id if reason.fetched_from else ""
    return root_cause(said or reason.description, reason.class_name or ""), source


_decode_list = msgspec.json.Decoder(list[ev.Accumulable]).decode
_decode_text = msgspec.json.Decoder(str).decode


def _list(raw: msgspec.Raw) -> list[ev.Accumulable]:
    try:
        return _decode_list(raw)
    except ev.NOT_FITTING:
        return []


def _listed_record(accumulables: list[ev.Accumulable]) -> str:
    for one in accumulables:
        if one.name == TASK_RECORD:
            try:
                return _decode_text(one.update)
            except ev.NOT_FITTING:
                pass
    return ""


def record_at(text: bytes, at: int, end: int) -> str:
    """Return the record whose :data:`RECORD` starts at a place; empty where it is damaged."""
    start = at + len(RECORD) - 1
    stop = text.find(_END_OF_RECORD, start + 1, end)
    try:
        return _decode_text(text[start : stop + 1])
    except ev.NOT_FITTING:
        return ""


SLOT_BYTES = 4 << 20
"""Largest block handed out (4 MiB); usual ones have 1 MiB."""
SLOTS = 3
"""Blocks that a helper has at most: one that it decodes, and the next ones."""
MOST_WAITING = 32
"""Decoded blocks that wait for an earlier one at most: they hold their lines."""

ORDER = struct.Struct("<qq")
"""Where a block starts in the shared memory, and its length."""
ANSWER = struct.Struct("<q")
"""Length of the decoded tasks, which have replaced the block; −1 if they do not fit there. One
answer comes before the first order: it tells that the process has started."""


class _Slot:
    """A block that was handed out, or decoded, and waits for its turn."""

    def __init__(self, text: bytes, tasks: TaskBlock | None = None) -> None:
        self.text = text
        self.tasks = tasks


class _Helper:
    """One helping process.

    given: the blocks it has, in their order, and their places.
    free: free places; none until it has started, so that nobody waits for a block that it has.
    started: whether it has said so, by an answer to no block.
    """

    def __init__(self, file: int, first: int) -> None:
        words = command(__name__, "help_decoding", file, quick=True)
        self.process = start(words, pass_fds=(file,), bufsize=0)
        self.given: deque[tuple[_Slot, int]] = deque()
        self.free: list[int] = []
        self.started = False
        self._first = first

    def give(self, slot: _Slot, memory: mmap.mmap) -> bool:
        """Hand out a block; return False if there is no room, or nobody to take it."""
        text = slot.text
        if not self.free or len(text) > SLOT_BYTES:
            return False
        start = self.free.pop()
        memory[start : start + len(text)] = text
        self.given.append((slot, start))
        with suppress(OSError):  # it died, and the end of its answers tells so
            os.write(self.process.stdin.fileno(), ORDER.pack(start, len(text)))  # type: ignore[union-attr]
        return True

    def answer(self) -> int | None:
        """Return its next answer; None if it ended."""
        answer = os.read(self.process.stdout.fileno(), ANSWER.size)  # type: ignore[union-attr]
        return ANSWER.unpack(answer)[0] if len(answer) == ANSWER.size else None

    def start(self) -> None:
        """Take note that it has started."""
        self.started = True
        self.free = [self._first + number * SLOT_BYTES for number in range(SLOTS)]

    def taken(self) -> tuple[_Slot, int]:
        """Return the block that is answered, and its place, which is free again."""
        slot, start = self.given.popleft()
        self.free.append(start)
        return slot, start

    def end(self) -> None:
        """End the process."""
        self.process.kill()
        end(self.process)


class BlockPool:
    """Decodes blocks in their order.

    helpers: processes to start beside this one; none where memory cannot be shared with them.
    """

    def __init__(self, helpers: int) -> None:
        self._count = helpers if os.name == "posix" else 0
        self._helpers: list[_Helper] = []
        self._decoder = TaskDecoder()
        self._decode_tasks = msgspec.msgpack.Decoder(TaskBlock).decode
        self._memory: Any = None

    def __enter__(self) -> BlockPool:
        return self

    def __exit__(self, *_: object) -> None:
        for helper in self._helpers:
            helper.end()
        self._helpers = []
        if self._memory is not None:
            self._memory.close()

    def decoded(
        self, blocks: Iterable[bytes], is_large: Callable[[], bool]
    ) -> Iterator[tuple[bytes, TaskBlock]]:
        """Yield blocks and their tasks.

        blocks: iterable of bytes; in the order of the log.
        is_large: tells, after the first block, whether helpers are worth their start.
        """
        waiting: deque[_Slot] = deque()
        for text in blocks:
            if self._count and is_large():
                self._start()
            slot = _Slot(text)
            if not any(helper.give(slot, self._memory) for helper in self._helpers):
                slot.tasks = self._decoder.decode(text)
            waiting.append(slot)
            self._take(None if len(waiting) > MOST_WAITING else 0.0, waiting)
            while waiting and waiting[0].tasks is not None:
                done = waiting.popleft()
                yield done.text, done.tasks  # type: ignore[misc]
        while waiting:
            self._take(None, waiting)
            done = waiting.popleft()
            yield done.text, done.tasks  # type: ignore[misc]

    def _start(self) -> None:
        count, self._count = self._count, 0
        import tempfile  # slow to import, and no helper needs it

        with tempfile.TemporaryFile() as file:
            size = count * SLOTS * SLOT_BYTES
            number = os.memfd_create("blocks") if hasattr(os, "memfd_create") else file.fileno()
            try:
                os.truncate(number, size)
                self._memory = mmap.mmap(number, size)
                for helper in range(count):
                    self._helpers.append(_Helper(number, helper * SLOTS * SLOT_BYTES))
            except OSError:
                return  # no memory to share, or no process to be had: this one reads alone
            finally:
                if number != file.fileno():
                    os.close(number)

    def _take(self, timeout: float | None, waiting: deque[_Slot]) -> None:
        """Take the answers that are there; without a timeout wait for the first block's."""
        while self._helpers and (timeout is not None or waiting[0].tasks is None):
            of_file = {helper.process.stdout.fileno(): helper for helper in self._helpers}  # type: ignore[union-attr]
            ready = select.select(list(of_file), [], [], timeout)[0]
            for file in ready:
                self._take_from(of_file[file])
            if not ready:
                return

    def _take_from(self, helper: _Helper) -> None:
        length = helper.answer()
        if length is None:
            self._helpers.remove(helper)
            helper.end()
            for slot, _ in helper.given:
                slot.tasks = self._decoder.decode(slot.text)
        elif not helper.started:
            helper.start()
        else:
            slot, start = helper.taken()
            if length < 0:
                slot.tasks = self._decoder.decode(slot.text)
            else:
                slot.tasks = self._decode_tasks(self._memory[start : start + length])


def help_decoding(file: int) -> None:
    """Decode blocks in a process of its own, until its standard input is closed."""
    memory = mmap.mmap(file, 0)
    decoder, encode = TaskDecoder(), msgspec.msgpack.Encoder().encode
    os.write(1, ANSWER.pack(0))
    while len(order := os.read(0, ORDER.size)) == ORDER.size:
        start, length = ORDER.unpack(order)
        answer = encode(decoder.decode(memory[start : start + length]))
        fits = len(answer) <= length
        if fits:
            memory[start : start + len(answer)] = answer
        os.write(1, ANSWER.pack(len(answer) if fits else -1))
