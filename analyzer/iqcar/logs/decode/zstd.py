"""Decodes Zstandard streams, as Spark 3 and later write them by default."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, cast

import zstandard

from iqcar.logs.decode.streams import DamageError, Readable, damaged, unfinished

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
MAX_WINDOW_BYTES = 128 << 20
"""Largest window a frame may ask for (128 MiB, zstd's own default limit; Spark's level 1 asks for
0.5 MiB, the highest level for 128 MiB)."""

_CODEC = "zstd"
_MOST_BYTES = 128 << 10
"""Bytes of a piece at most (128 KiB, a zstd block): it stays in the processor's cache."""
_MARK = b"\n"
_PROBE = b"\x01\0\0" + zstandard.ZstdCompressor().compress(_MARK)
"""An empty last block, and a frame. Behind a whole frame it is no frame; between two blocks it ends
the frame, and another one follows; within a block it is part of the block, or damage."""


def is_skippable(magic: bytes) -> bool:
    """Tell whether 4 bytes start a frame that holds no data (seekable zstd has them)."""
    return len(magic) >= 4 and magic[0] & 0xF0 == 0x50 and magic[1:4] == b"\x2a\x4d\x18"


class _Probed:
    """A stream, and at its end the probe."""

    def __init__(self, raw: Readable) -> None:
        self._raw = raw
        self.ended = False

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes."""
        data = b"" if self.ended else self._raw.read(size)
        if not data and not self.ended:
            self.ended = True
            return _PROBE
        return data


def zstd_pieces(raw: Readable, piece_bytes: int) -> Iterator[bytes]:
    """Decode zstd frames, one after the other (RFC 8878 §3.1), a piece at a time.

    Raises DamageError if the data is damaged, ends within a block, or needs too large a window. A
    stream that ends between two blocks (a log still being written) is not damaged.
    """
    source, last = _Probed(raw), b""
    reader = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES).stream_reader(
        cast("BinaryIO", source), read_size=piece_bytes, read_across_frames=True
    )
    try:
        while last := reader.read1(_MOST_BYTES):
            if source.ended and last.endswith(_MARK):
                yield last[: -len(_MARK)]
                return
            yield last
    except zstandard.ZstdError as error:
        text = str(error)
        if not source.ended:
            raise _refused(text) or damaged(_CODEC) from error
        if "Unknown frame" in text:
            return
    raise unfinished(_CODEC)


def _refused(text: str) -> DamageError | None:
    if "memory" in text:
        return DamageError(
            f"the zstd data asks for a window of more than {MAX_WINDOW_BYTES >> 20} MiB"
        )
    if "ictionary" in text:
        return DamageError("the zstd data needs a dictionary, which is not stored with it")
    return None
