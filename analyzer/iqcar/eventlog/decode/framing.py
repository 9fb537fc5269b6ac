"""Block codecs that Spark writes event logs with: LZ4Block, Snappy (xerial), LZF; and LZ4's and
Snappy's standard framings. Each function yields decoded blocks; it raises where it has to stop.

Declared lengths are checked before anything of that length is allocated. Checksums are not
verified: damage shows as a block that does not decode, or as lines that are not events.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import cramjam

from iqcar.eventlog.decode.streams import DamageError, damaged, exactly, skip, unfinished

if TYPE_CHECKING:
    from collections.abc import Buffer, Iterator  # type: ignore[attr-defined]

    from iqcar.eventlog.decode.streams import Readable

MAX_BLOCK_BYTES = 32 << 20
"""Largest decoded block accepted (32 MiB, the most LZ4Block can declare; Spark's default for LZ4
and Snappy is 32 KiB)."""

LZ4_BLOCK_MAGIC = b"LZ4Block"
LZ4_FRAME_MAGIC = b"\x04\x22\x4d\x18"
SNAPPY_XERIAL_MAGIC = b"\x82SNAPPY\x00"
SNAPPY_FRAMED_MAGIC = b"\xff\x06\x00\x00sNaPpY"
LZF_MAGIC = b"ZV"

_LZ4_BLOCK_HEADER = struct.Struct("<Biii")
_LZ4_RAW, _LZ4_COMPRESSED = 0x10, 0x20
_LZ4_LEVEL_BASE = 10
_LZ4_HISTORY_BYTES = 0xFFFF
_SNAPPY_CHUNK_BYTES = 1 << 16


def most_stored(decoded: int) -> int:
    """Return the most bytes that `decoded` bytes can be stored in (Snappy's bound, the loosest)."""
    return 32 + decoded + decoded // 6


def lz4_blocks(raw: Readable) -> Iterator[Buffer]:
    """Decode lz4-java's ``LZ4BlockOutputStream``: magic, token, lengths, checksum, block.

    A block of length 0 ends a stream; another stream may follow.
    """
    codec = "LZ4"
    while magic := raw.read(len(LZ4_BLOCK_MAGIC)):
        if magic != LZ4_BLOCK_MAGIC:
            whole = not LZ4_BLOCK_MAGIC.startswith(magic)
            raise damaged(codec) if whole else unfinished(codec)
        header = exactly(raw, _LZ4_BLOCK_HEADER.size, codec)
        token, stored, decoded, _ = _LZ4_BLOCK_HEADER.unpack(header)
        limit = min(MAX_BLOCK_BYTES, 1 << (_LZ4_LEVEL_BASE + (token & 0x0F)))
        if not (0 <= decoded <= limit and 0 <= stored <= most_stored(decoded)):
            raise damaged(codec)
        if decoded == 0:
            continue
        data: Buffer = exactly(raw, stored, codec)
        if token & 0xF0 == _LZ4_COMPRESSED:
            data = _lz4_block(data, decoded, codec)
        elif token & 0xF0 != _LZ4_RAW:
            raise damaged(codec)
        if len(data) != decoded:
            raise damaged(codec)
        yield data


def _lz4_block(data: bytes, at_most: int, codec: str) -> memoryview:
    out = bytearray(at_most)
    try:
        size = cramjam.lz4.decompress_block_into(data, out)
    except cramjam.DecompressionError as error:
        raise damaged(codec) from error
    return memoryview(out)[:size]


def lz4_frames(raw: Readable) -> Iterator[Buffer]:
    """Decode the standard LZ4 frame format (``lz4`` on the command line), several frames too."""
    codec = "LZ4"
    while magic := raw.read(4):
        if len(magic) == 4 and magic[0] & 0xF0 == 0x50 and magic[1:] == b"\x2a\x4d\x18":
            skip(raw, int.from_bytes(exactly(raw, 4, codec), "little"), codec)
        elif magic == LZ4_FRAME_MAGIC:
            yield from _lz4_frame(raw, codec)
        else:
            raise unfinished(codec) if len(magic) < 4 else damaged(codec)


def _lz4_frame(raw: Readable, codec: str) -> Iterator[Buffer]:
    flags, sizes = exactly(raw, 2, codec)
    if flags >> 6 != 1:
        raise DamageError("the LZ4 data is of a version that is not known")
    if flags & 0x01:
        raise DamageError("the LZ4 data needs a dictionary, which is not stored with it")
    independent, block_checksum = flags & 0x20, flags & 0x10
    exactly(raw, (8 if flags & 0x08 else 0) + 1, codec)
    limit = 1 << (8 + 2 * max(4, sizes >> 4 & 0x07))
    history = b""
    while size := int.from_bytes(exactly(raw, 4, codec), "little"):
        stored = size & 0x7FFFFFFF
        if stored > most_stored(limit):
            raise damaged(codec)
        data: Buffer = exactly(raw, stored, codec)
        if not size & 0x80000000:
            data = _lz4_linked(data, history, limit, codec)
        if not independent:
            history = (history + bytes(data))[-_LZ4_HISTORY_BYTES:]
        exactly(raw, 4 if block_checksum else 0, codec)
        yield data
    exactly(raw, 4 if flags & 0x04 else 0, codec)


def _lz4_linked(data: bytes, history: bytes, limit: int, codec: str) -> memoryview:
    """Decode a block that may copy from the history before it.

    The block decoder takes no dictionary, so the history is put in front as an LZ4 sequence: its
    last 4 bytes and all but those as literals, then a match of 4 bytes that completes it.
    """
    if not history:
        return _lz4_block(data, limit, codec)
    if len(history) < 4:
        history = bytes(4) + history
    literals = history[-4:] + history[:-4]
    extra = len(literals) - 15
    token = bytes([min(len(literals), 15) << 4])
    lengths = b"\xff" * (extra // 255) + bytes([extra % 255]) if extra >= 0 else b""
    sequence = token + lengths + literals + len(history).to_bytes(2, "little")
    decoded = _lz4_block(sequence + data, 4 + len(history) + limit, codec)
    return decoded[4 + len(history) :]


def snappy_xerial(raw: Readable) -> Iterator[Buffer]:
    """Decode snappy-java's ``SnappyOutputStream``: header, then big-endian lengths and blocks.

    Headers of further streams may come between blocks.
    """
    codec = "Snappy"
    magic_rest = len(SNAPPY_XERIAL_MAGIC) - 4 + 8
    while head := raw.read(4):
        if len(head) < 4:
            raise unfinished(codec)
        if head == SNAPPY_XERIAL_MAGIC[:4]:
            exactly(raw, magic_rest, codec)
            continue
        stored = int.from_bytes(head, "big")
        if stored > most_stored(MAX_BLOCK_BYTES):
            raise damaged(codec)
        yield _snappy(exactly(raw, stored, codec), MAX_BLOCK_BYTES)


def _snappy(data: bytes, limit: int) -> Buffer:
    try:
        if cramjam.snappy.decompress_raw_len(data) > limit:
            raise damaged("Snappy")
        return cramjam.snappy.decompress_raw(data)
    except cramjam.DecompressionError as error:
        raise damaged("Snappy") from error


def snappy_framed(raw: Readable) -> Iterator[Buffer]:
    """Decode the standard Snappy framing format."""
    codec = "Snappy"
    while head := raw.read(4):
        if len(head) < 4:
            raise unfinished(codec)
        kind, stored = head[0], int.from_bytes(head[1:], "little")
        if kind in (0x00, 0x01):
            if not 4 <= stored <= 4 + most_stored(_SNAPPY_CHUNK_BYTES):
                raise damaged(codec)
            data = exactly(raw, stored, codec)[4:]
            yield data if kind else _snappy(data, _SNAPPY_CHUNK_BYTES)
        elif kind >= 0x80:
            skip(raw, stored, codec)
        else:
            raise damaged(codec)


def lzf_blocks(raw: Readable) -> Iterator[Buffer]:
    """Decode compress-lzf's ``LZFOutputStream``: 'ZV', type, lengths (big-endian), block."""
    from iqcar.eventlog.decode.lzf import decode_lzf

    codec = "LZF"
    while head := raw.read(5):
        if not head.startswith(LZF_MAGIC[: len(head)]):
            raise damaged(codec)
        if len(head) < 5:
            raise unfinished(codec)
        stored = int.from_bytes(head[3:], "big")
        if head[2] == 0:
            yield exactly(raw, stored, codec)
        elif head[2] == 1:
            size = int.from_bytes(exactly(raw, 2, codec), "big")
            block = decode_lzf(exactly(raw, stored, codec), size)
            if block is None:
                raise damaged(codec)
            yield block
        else:
            raise damaged(codec)
