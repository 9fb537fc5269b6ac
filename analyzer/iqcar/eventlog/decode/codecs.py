"""What a stored stream is compressed with, told from its first bytes, and its decoded chunks.

Suffixes are not asked: logs get renamed, and Spark's own ``.lz4`` and ``.snappy`` are not the
formats that other tools give these suffixes.
"""

from __future__ import annotations

import bz2
import zlib
from typing import TYPE_CHECKING

from iqcar.enums import Kind
from iqcar.eventlog.decode.streams import (
    CHUNK_BYTES,
    BombError,
    StoredStream,
    damaged,
    gathered,
    unfinished,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from iqcar.eventlog.decode.streams import Readable

BOMB_FLOOR_BYTES = 1 << 30
"""Decoded size from which the ratio of decoded to stored bytes is limited (1 GiB)."""

MAX_RATIO = 800
"""Most decoded bytes per stored byte beyond :data:`BOMB_FLOOR_BYTES`. Event logs of many kinds
reach 10–60, one small log repeated word for word 600; runs of one byte reach 1030 (gzip), 30,000
(zstd), a million (bzip2)."""

PIECE_BYTES = 16 << 10
"""Stored bytes given to zlib and bzip2 at a time (16 KiB): what a call decodes before it meets
damage is lost, so calls are small."""

HEAD_BYTES = 16
"""Bytes that tell the codec."""


_GZIP_BITS = 31


class Codec(Kind):
    """How a log is compressed."""

    PLAIN = "plain", "Not compressed."
    ZSTD = "zstd", "Zstandard (Spark's default since 3.0)."
    GZIP = "gzip", "gzip, several members too."
    BZIP2 = "bzip2", "bzip2, several streams too."
    LZ4_BLOCK = "lz4-block", "LZ4 as Spark writes it (lz4-java's block stream)."
    LZ4_FRAME = "lz4-frame", "LZ4 as the lz4 command writes it."
    SNAPPY_XERIAL = "snappy-xerial", "Snappy as Spark writes it (snappy-java's stream)."
    SNAPPY_FRAMED = "snappy-framed", "Snappy's standard framing."
    LZF = "lzf", "LZF as Spark writes it (compress-lzf's stream)."


def detect(head: bytes) -> Codec:
    """Tell the codec from the first :data:`HEAD_BYTES` bytes of a stream.

    Anything unknown counts as plain text.
    """
    from iqcar.eventlog.decode import framing
    from iqcar.eventlog.decode.zstd import ZSTD_MAGIC, is_skippable

    if head.startswith(framing.LZF_MAGIC) and head[2:3] in (b"\x00", b"\x01"):
        return Codec.LZF
    if head.startswith(b"BZh") and head[4:10] in (b"1AY&SY", b"\x17rE8P\x90"):
        return Codec.BZIP2
    if is_skippable(head):
        return Codec.ZSTD
    magics = {
        ZSTD_MAGIC: Codec.ZSTD,
        b"\x1f\x8b": Codec.GZIP,
        framing.LZ4_BLOCK_MAGIC: Codec.LZ4_BLOCK,
        framing.LZ4_FRAME_MAGIC: Codec.LZ4_FRAME,
        framing.SNAPPY_XERIAL_MAGIC: Codec.SNAPPY_XERIAL,
        framing.SNAPPY_FRAMED_MAGIC: Codec.SNAPPY_FRAMED,
    }
    return next((codec for magic, codec in magics.items() if head.startswith(magic)), Codec.PLAIN)


def decoded_chunks(stream: StoredStream) -> Iterator[bytes]:
    """Decode a stream of any codec, in bounded memory.

    Parameters
    ----------
    stream : StoredStream
        At its beginning.

    Yields
    ------
    bytes
        About 1 MiB each, at most the largest block of the codec (32 MiB).

    Raises
    ------
    DamageError
        Where the data ends early, is damaged, or asks for too much memory; all that could be
        decoded before has been given then.
    """
    codec = detect(stream.head(HEAD_BYTES))
    return _decoder(codec)(stream)


def _decoder(codec: Codec) -> Callable[[Readable], Iterator[bytes]]:
    from iqcar.eventlog.decode import framing
    from iqcar.eventlog.decode.zstd import zstd_chunks

    blocks = {
        Codec.LZ4_BLOCK: framing.lz4_blocks,
        Codec.LZ4_FRAME: framing.lz4_frames,
        Codec.SNAPPY_XERIAL: framing.snappy_xerial,
        Codec.SNAPPY_FRAMED: framing.snappy_framed,
        Codec.LZF: framing.lzf_blocks,
    }
    if codec in blocks:
        return lambda raw: gathered(blocks[codec](raw))
    return {
        Codec.PLAIN: plain_chunks,
        Codec.ZSTD: zstd_chunks,
        Codec.GZIP: gzip_chunks,
        Codec.BZIP2: bzip2_chunks,
    }[codec]


def check_ratio(decoded: int, stored: int) -> None:
    """Stop a decompression bomb.

    Raises
    ------
    DamageError
        If `decoded` bytes came out of `stored` bytes, and no real log compresses like that.
    """
    if decoded > BOMB_FLOOR_BYTES and decoded > MAX_RATIO * stored:
        raise BombError(
            f"{decoded >> 20} MiB came out of {stored:,} stored bytes, more than {MAX_RATIO}:1; "
            "reading stopped there (decompression bomb?)"
        )


def plain_chunks(raw: Readable) -> Iterator[bytes]:
    """Pass on what is not compressed."""
    while chunk := raw.read(CHUNK_BYTES):
        yield chunk


def gzip_chunks(raw: Readable) -> Iterator[bytes]:
    """Decode gzip members, one after the other."""
    return gathered(_inflated(raw))


def _inflated(raw: Readable) -> Iterator[bytes]:
    engine = zlib.decompressobj(wbits=_GZIP_BITS)
    pending, inside = b"", False
    while data := pending or raw.read(PIECE_BYTES):
        if not inside:
            # Tapes and block devices pad the end with zeros.
            data = data.lstrip(b"\0")
        try:
            chunk = engine.decompress(data, CHUNK_BYTES) if data else b""
        except zlib.error as error:
            raise damaged("gzip") from error
        inside = inside or bool(data)
        pending = engine.unconsumed_tail
        yield chunk
        if engine.eof:
            pending, inside = engine.unused_data, False
            engine = zlib.decompressobj(wbits=_GZIP_BITS)
    if inside:
        yield engine.flush()
        raise unfinished("gzip")


def bzip2_chunks(raw: Readable) -> Iterator[bytes]:
    """Decode bzip2 streams, one after the other."""
    return gathered(_bunzipped(raw))


def _bunzipped(raw: Readable) -> Iterator[bytes]:
    engine = bz2.BZ2Decompressor()
    pending, inside = b"", False
    while True:
        data = b""
        if engine.needs_input:
            data, pending = pending or raw.read(PIECE_BYTES), b""
            if not data:
                break
        try:
            chunk = engine.decompress(data, CHUNK_BYTES)
        except OSError as error:
            raise damaged("bzip2") from error
        inside = True
        yield chunk
        if engine.eof:
            pending, inside = engine.unused_data, False
            engine = bz2.BZ2Decompressor()
    if inside:
        raise unfinished("bzip2")
