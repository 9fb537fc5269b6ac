"""The lines of an event log, in blocks: decoded, divided, and never more than one line at a time
in memory beyond the block.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from iqcar.eventlog.decode.codecs import check_ratio, decoded_chunks
from iqcar.eventlog.decode.streams import BombError, DamageError, UnfinishedError
from iqcar.eventlog.events.blocks import Block
from iqcar.eventlog.find.storage import open_part

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from iqcar.eventlog.find.log_parts import EventLog, LogPart

MAX_LINE_BYTES = 64 << 20
"""Longest line kept (64 MiB). The longest known events hold the plans of huge queries: a few
megabytes; Spark itself fails on strings from some hundred megabytes on."""

MIN_MEAN_LINE_BYTES = 64
"""Shortest mean line of a log with more than :data:`MANY_LINES` lines. The shortest event there is
takes about 50 bytes, a task's end some thousand."""

MANY_LINES = 1_000_000
"""Lines after which their mean length is checked."""

_BOM = b"\xef\xbb\xbf"


@dataclass
class LineTally:
    """What :func:`read_blocks` has met so far.

    Attributes
    ----------
    too_long : int
        Lines over :data:`MAX_LINE_BYTES`, skipped.
    bytes_stored : int
        Stored bytes read.
    bytes_decoded : int
        Bytes after decompression.
    damage : str
        Why something could not be read, in a sentence; empty if all was read.
    last_line_cut : bool
        Whether the last line has no newline (it may be whole nevertheless).
    """

    too_long: int = 0
    bytes_stored: int = 0
    bytes_decoded: int = 0
    damage: str = ""
    last_line_cut: bool = False


def read_blocks(
    log: EventLog, tally: LineTally, on_progress: Callable[[int], None] | None = None
) -> Iterator[Block]:
    """Read a log's lines.

    Parameters
    ----------
    log : EventLog
        From :func:`~iqcar.eventlog.find.locate.locate`.
    tally : LineTally
        Filled while reading; complete when the iterator ends.
    on_progress : callable, optional
        Called after every block with the stored bytes of the log read so far.

    Yields
    ------
    Block
        Lines of about 1 MiB in the order of the log, none of them blank or longer than
        :data:`MAX_LINE_BYTES`; never without a line. Bad content never raises: ``tally.damage``
        says why a part was left early. A damaged part of a rolling log does not keep the later
        parts from being read. A log that is marked as in progress may end within compressed data:
        that is no damage.

    Raises
    ------
    IqcarError
        If a URL needs a package that is not installed.
    """
    splitter = _Splitter(tally)
    damages: list[str] = []
    for part in log.parts:
        damage = yield from _whole_part(part, tally, splitter, on_progress)
        if damage is None:
            continue
        last = part is log.parts[-1]
        if isinstance(damage, UnfinishedError) and log.in_progress_hint and last:
            continue  # what is missing has not been written yet
        damages.append(_of_part(damage, part, log))
        tally.damage = "; ".join(damages)
        if isinstance(damage, BombError):
            return


def _of_part(damage: DamageError, part: LogPart, log: EventLog) -> str:
    if len(log.parts) == 1:
        return str(damage)
    return f"{part.path.replace(os.sep, '/').rpartition('/')[2]}: {damage}"


def _whole_part(
    part: LogPart,
    tally: LineTally,
    splitter: _Splitter,
    on_progress: Callable[[int], None] | None,
) -> Generator[Block, None, DamageError | None]:
    """Yield the lines of one part; return what kept it from being read to its end."""
    stored_before = tally.bytes_stored
    damage = None
    splitter.start()
    try:
        with open_part(part) as stream:
            for chunk in decoded_chunks(stream):
                tally.bytes_stored = stored_before + stream.stored_bytes
                tally.bytes_decoded += len(chunk)
                if block := splitter.split(chunk):
                    yield block
                if on_progress is not None:
                    on_progress(tally.bytes_stored)
                check_ratio(tally.bytes_decoded, tally.bytes_stored)
                splitter.check_mean()
    except DamageError as error:
        damage = error
    if block := splitter.finish():
        yield block
    return damage


class _Splitter:
    """Cuts chunks after their last newline and keeps what follows for the next chunk."""

    def __init__(self, tally: LineTally) -> None:
        self._tally = tally
        self._seen = 0
        self.start()

    def start(self) -> None:
        """Begin a part: it starts with a new line, and may start with a byte order mark."""
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._skipping = False
        self._first = True

    def split(self, chunk: bytes) -> Block | None:
        """Return the lines that end in the chunk, if any is worth it."""
        first = chunk.find(b"\n")
        if first < 0:
            self._hold(chunk)
            return None
        self._hold(chunk[:first])
        first += self._skipping
        last = chunk.rfind(b"\n") + 1
        block = Block.of(self._take(memoryview(chunk)[first:last]))
        self._hold(chunk[last:])
        self._seen += block.newlines
        return block if len(block) else None

    def finish(self) -> Block | None:
        """Return what comes after the last newline, if anything."""
        line = self._take(b"").rstrip()
        self._tally.last_line_cut = bool(line)
        return Block.of(line + b"\n") if line else None

    def check_mean(self) -> None:
        """Stop a file of countless lines that are too short to be events."""
        if self._seen > MANY_LINES and self._tally.bytes_decoded < MIN_MEAN_LINE_BYTES * self._seen:
            mean = self._tally.bytes_decoded // self._seen
            raise BombError(
                f"more than {MANY_LINES:,} lines of about {mean} bytes, not Spark events; "
                "reading stopped"
            )

    def _hold(self, piece: bytes) -> None:
        """Add to the line that has no end yet; give it up when it gets too long."""
        if self._skipping or not piece:
            return
        self._held.append(piece)
        self._held_bytes += len(piece)
        if self._held_bytes > MAX_LINE_BYTES:
            self._tally.too_long += 1
            self._held, self._held_bytes, self._skipping = [], 0, True

    def _take(self, more: memoryview | bytes) -> bytes:
        """Return the held line, nothing if it was too long, and more; start the next one."""
        text = b"".join((*self._held, more))
        if self._first and not self._skipping:
            text = text.removeprefix(_BOM)
        self._held, self._held_bytes, self._skipping, self._first = [], 0, False, False
        return text
