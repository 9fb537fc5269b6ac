"""Decodes the tasks of one log's blocks on several cores: in this process and in helping ones.

Blocks are handed out in shared memory, and come back decoded in the same place. This process
decodes whatever the others have no room for, so no process waits for another; a helper that dies
costs nothing but the time to decode its blocks again.
"""

from __future__ import annotations

import mmap
import os
import select
import struct
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

import msgspec

from iqcar.base.workers import command, end, start
from iqcar.logs.tasks.task_lines import TaskBlock, TaskDecoder

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

    Attributes
    ----------
    given : the blocks it has, in their order, and their places.
    free : free places; none until it has started, so that nobody waits for a block that it has.
    started : whether it has said so, by an answer to no block.
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

    Parameters
    ----------
    helpers : processes to start beside this one; none where memory cannot be shared with them.
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

        Parameters
        ----------
        blocks : iterable of bytes; in the order of the log.
        is_large : tells, after the first block, whether helpers are worth their start.
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
