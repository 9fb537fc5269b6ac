"""Decodes the block codecs that Spark writes event logs with: LZ4Block, Snappy (xerial) and LZF.

Each function yields decoded blocks; it raises where it has to stop.

Declared lengths are checked before anything of that length is allocated. Checksums are not
verified: damage shows as a block that does not decode, or as lines that are not events.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import cramjam

from iqcar.logs.decode.streams import Readable, damaged, exactly, unfinished

if TYPE_CHECKING:
    from collections.abc import Buffer, Iterator  # type: ignore[attr-defined]

MAX_BLOCK_BYTES = 32 << 20
"""Largest decoded block accepted (32 MiB, the most LZ4Block can declare; Spark's default for LZ4
and Snappy is 32 KiB)."""

LZ4_BLOCK_MAGIC = b"LZ4Block"
SNAPPY_XERIAL_MAGIC = b"\x82SNAPPY\x00"
LZF_MAGIC = b"ZV"

_LZ4_BLOCK_HEADER = struct.Struct("<Biii")
_LZ4_RAW, _LZ4_COMPRESSED = 0x10, 0x20
_LZ4_LEVEL_BASE = 10


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
            data = _lz4_block(data, decoded)
        elif token & 0xF0 != _LZ4_RAW:
            raise damaged(codec)
        if len(data) != decoded:
            raise damaged(codec)
        yield data


def _lz4_block(data: bytes, at_most: int) -> memoryview:
    out = bytearray(at_most)
    try:
        size = cramjam.lz4.decompress_block_into(data, out)
    except cramjam.DecompressionError as error:
        raise damaged("LZ4") from error
    return memoryview(out)[:size]


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
        yield _snappy(exactly(raw, stored, codec))


def _snappy(data: bytes) -> Buffer:
    try:
        if cramjam.snappy.decompress_raw_len(data) > MAX_BLOCK_BYTES:
            raise damaged("Snappy")
        return cramjam.snappy.decompress_raw(data)
    except cramjam.DecompressionError as error:
        raise damaged("Snappy") from error


def lzf_blocks(raw: Readable) -> Iterator[Buffer]:
    """Decode compress-lzf's ``LZFOutputStream``: 'ZV', type, lengths (big-endian), block."""
    from iqcar.logs.decode.lzf import decode_lzf

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
