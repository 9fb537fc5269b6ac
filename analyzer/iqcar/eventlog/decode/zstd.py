"""Zstandard, fed block by block: what comes before any damage is decoded, an unfinished stream is
told from a finished one, and a frame that asks for too much memory is refused before it gets any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import zstandard

from iqcar.eventlog.decode.streams import DamageError, damaged, exactly, gathered, skip, unfinished

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iqcar.eventlog.decode.streams import Readable

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
MAX_WINDOW_BYTES = 128 << 20
"""Largest window a frame may ask for (128 MiB, zstd's own default limit; Spark's level 1 asks for
0.5 MiB, the highest level for 128 MiB)."""

_CODEC = "zstd"
_MIN_WINDOW_LOG = 10
_MAX_BLOCK_BYTES = 128 << 10
_DICTIONARY_ID_BYTES = (0, 1, 2, 4)
_RLE_BLOCK = 1


def is_skippable(magic: bytes) -> bool:
    """Tell whether 4 bytes start a frame that holds no data (seekable zstd has them)."""
    return len(magic) >= 4 and magic[0] & 0xF0 == 0x50 and magic[1:4] == b"\x2a\x4d\x18"


def zstd_chunks(raw: Readable) -> Iterator[bytes]:
    """Decode zstd frames, one after the other (RFC 8878 §3.1).

    Raises
    ------
    DamageError
        If the data is damaged, ends within a block, or needs too large a window. A stream that
        ends between two blocks (a log still being written) is not damaged.
    """
    return gathered(_frames(raw))


def _frames(raw: Readable) -> Iterator[bytes]:
    while magic := raw.read(4):
        if is_skippable(magic):
            skip(raw, int.from_bytes(exactly(raw, 4, _CODEC), "little"), _CODEC)
        elif magic == ZSTD_MAGIC:
            yield from _frame(raw)
        else:
            raise damaged(_CODEC) if len(magic) == 4 else unfinished(_CODEC)


def _frame(raw: Readable) -> Iterator[bytes]:
    header = exactly(raw, 1, _CODEC)
    descriptor = header[0]
    single_segment = bool(descriptor & 0x20)
    window = b"" if single_segment else exactly(raw, 1, _CODEC)
    dictionary = exactly(raw, _DICTIONARY_ID_BYTES[descriptor & 3], _CODEC)
    size_flag = descriptor >> 6
    size = exactly(raw, (1 << size_flag) if size_flag else int(single_segment), _CODEC)
    _check_window(window, size)
    if any(dictionary):
        raise DamageError("the zstd data needs a dictionary, which is not stored with it")
    engine = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES).decompressobj()
    try:
        engine.decompress(ZSTD_MAGIC + header + window + dictionary + size)
        while head := raw.read(3):
            if len(head) < 3:
                raise unfinished(_CODEC)
            block = int.from_bytes(head, "little")
            stored = 1 if block >> 1 & 3 == _RLE_BLOCK else block >> 3
            if stored > _MAX_BLOCK_BYTES:
                raise damaged(_CODEC)
            yield engine.decompress(head + exactly(raw, stored, _CODEC))
            if block & 1:
                if descriptor & 4:
                    engine.decompress(exactly(raw, 4, _CODEC))
                return
    except zstandard.ZstdError as error:
        raise damaged(_CODEC) from error


def _check_window(window: bytes, size: bytes) -> None:
    """Refuse a frame whose window, or whose single segment, is too large."""
    if window:
        base = 1 << (_MIN_WINDOW_LOG + (window[0] >> 3))
        needed = base + base // 8 * (window[0] & 7)
    else:
        needed = int.from_bytes(size, "little")
    if needed > MAX_WINDOW_BYTES:
        raise DamageError(
            f"the zstd data asks for a window of {needed >> 20} MiB; "
            f"at most {MAX_WINDOW_BYTES >> 20} MiB are allowed"
        )
