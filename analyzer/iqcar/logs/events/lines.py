"""The lines of an event log, in blocks: decompressed, and cut at a newline.

A block is text; who takes it finds its lines. Never is more than one line in memory beyond it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass

from iqcar.logs.decode.codecs import check_ratio, decoded_pieces
from iqcar.logs.decode.streams import CHUNK_BYTES, BombError, DamageError, UnfinishedError
from iqcar.logs.find.log_parts import EventLog, LogPart
from iqcar.logs.find.storage import open_part

MAX_LINE_BYTES = 64 << 20
"""Longest line kept (64 MiB). The longest known events hold the plans of huge queries: a few
megabytes; Spark itself fails on strings from some hundred megabytes on."""

MIN_MEAN_LINE_BYTES = 64
"""Shortest mean line of a log with more than :data:`MANY_LINES` lines. The shortest event there is
takes about 50 bytes, a task's end some thousand."""

MANY_LINES = 1_000_000
"""Lines after which their mean length is checked."""

COUNTED_BYTES = 64 << 10
"""Bytes of a block in which lines are counted (64 KiB), as a sample of those of all the block."""

_BOM = b"\xef\xbb\xbf"


@dataclass
class LineTally:
    """What :func:`read_blocks` has met so far.

    Attributes
    ----------
    too_long : lines over :data:`MAX_LINE_BYTES`, skipped.
    bytes_stored : stored bytes read.
    bytes_decoded : bytes after decompression.
    damage : why something could not be read, in a sentence; empty if all was read.
    last_line_cut : whether the last line has no newline (it may be whole nevertheless).
    """

    too_long: int = 0
    bytes_stored: int = 0
    bytes_decoded: int = 0
    damage: str = ""
    last_line_cut: bool = False


def read_blocks(
    log: EventLog, tally: LineTally, on_progress: Callable[[int], None] | None = None
) -> Iterator[bytes]:
    """Read a log's lines.

    Parameters
    ----------
    log : from :func:`~iqcar.logs.find.locate.locate`.
    tally : filled while reading; complete when the iterator ends.
    on_progress : called after every block with the stored bytes of the log read so far.

    Yields a block: lines of about 1 MiB in the order of the log, none of them longer than
    :data:`MAX_LINE_BYTES`, not all of them blank; the last one ends in a newline, too. Bad content
    never raises: ``tally.damage`` says why a part was left early. A damaged part of a rolling log
    does not keep the later parts from being read. A log that is marked as in progress may end
    within compressed data: that is no damage.

    Raises IqcarError if a URL needs a package that is not installed.
    """
    splitter = LineSplitter(tally)
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
    splitter: LineSplitter,
    on_progress: Callable[[int], None] | None,
) -> Generator[bytes, None, DamageError | None]:
    """Yield the lines of one part; return what kept it from being read to its end."""
    stored_before = tally.bytes_stored
    damage = None
    splitter.start()
    try:
        with open_part(part) as stream:
            for piece in decoded_pieces(stream):
                tally.bytes_stored = stored_before + stream.stored_bytes
                tally.bytes_decoded += len(piece)
                check_ratio(tally.bytes_decoded, tally.bytes_stored)
                if block := splitter.add(piece):
                    yield block
                    if on_progress is not None:
                        on_progress(tally.bytes_stored)
                splitter.check_mean()
    except DamageError as error:
        damage = error
    if block := splitter.finish():
        yield block
    if on_progress is not None:
        on_progress(tally.bytes_stored)
    return damage


class LineSplitter:
    """Joins the pieces of a part to blocks that end in a newline."""

    def __init__(self, tally: LineTally) -> None:
        self._tally = tally
        self._lines_seen = 0.0
        self.start()

    def start(self) -> None:
        """Begin a part: it starts with a new line, and may start with a byte order mark."""
        self._lines: list[bytes | memoryview] = []
        self._line_bytes = 0
        self._open: list[bytes] = []
        self._open_bytes = 0
        self._skipping = False
        self._first = True

    def add(self, piece: bytes) -> bytes | None:
        """Take in a piece; return the lines that have ended if they are enough for a block."""
        after = piece.rfind(b"\n") + 1
        if after:
            if self._skipping or self._open_bytes + len(piece) > MAX_LINE_BYTES:
                first = piece.find(b"\n")
                if not self._skipping and self._open_bytes + first > MAX_LINE_BYTES:
                    self._drop_open_line()
                if self._skipping:
                    piece, after = piece[first + 1 :], after - first - 1
                    self._skipping = False
            self._lines += (*self._open, memoryview(piece)[:after])
            self._line_bytes += self._open_bytes + after
            self._open, self._open_bytes = [], 0
        if not self._skipping:
            self._open.append(piece[after:])
            self._open_bytes += len(piece) - after
            if self._open_bytes > MAX_LINE_BYTES:
                self._drop_open_line()
        return self._take() if self._line_bytes >= CHUNK_BYTES else None

    @property
    def held_bytes(self) -> int:
        """Bytes of a last line whose end has not come yet."""
        return self._open_bytes

    def take_ended(self) -> bytes | None:
        """Return the lines that have ended, as a block; a last line without a newline stays."""
        return self._take() if self._lines else None

    def finish(self) -> bytes | None:
        """Return what is left, as a block; a last line without a newline gets one."""
        line = b"".join(self._open)
        if self._first and not self._lines:
            line = line.removeprefix(_BOM)
        line = line.rstrip()
        self._tally.last_line_cut = bool(line)
        if line:
            self._lines += (line, b"\n")
        return self._take()

    def check_mean(self) -> None:
        """Stop a file of countless lines that are too short to be events."""
        seen = self._lines_seen
        if seen > MANY_LINES and self._tally.bytes_decoded < MIN_MEAN_LINE_BYTES * seen:
            mean = int(self._tally.bytes_decoded / seen)
            raise BombError(
                f"more than {MANY_LINES:,} lines of about {mean} bytes, not Spark events; "
                "reading stopped"
            )

    def _drop_open_line(self) -> None:
        """Give up the line that has no end yet: it is too long."""
        self._tally.too_long += 1
        self._open, self._open_bytes = [], 0
        self._skipping, self._first = True, self._first and bool(self._lines)

    def _take(self) -> bytes | None:
        """Return the lines that have ended, None if they are blank; start the next block."""
        text = b"".join(self._lines)
        if self._first:
            text = text.removeprefix(_BOM)
        self._lines, self._line_bytes, self._first = [], 0, False
        if not text or text.isspace():
            self._lines_seen += text.count(b"\n")
            return None
        counted = min(len(text), COUNTED_BYTES)
        self._lines_seen += text.count(b"\n", 0, counted) * len(text) / counted
        return text
