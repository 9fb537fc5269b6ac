"""What a stored stream is compressed with, told from its first bytes, and its decoded chunks.

Suffixes are not asked: logs get renamed, and Spark's own ``.lz4`` and ``.snappy`` are not the
formats that other tools give these suffixes.
"""

from __future__ import annotations

import bz2
import zlib
from typing import TYPE_CHECKING, Any

from iqcar.enums import Kind
from iqcar.logs.decode.streams import (
    CHUNK_BYTES,
    BombError,
    DamageError,
    Readable,
    StoredStream,
    damaged,
    unfinished,
)

if TYPE_CHECKING:
    from collections.abc import Buffer, Callable, Iterator  # type: ignore[attr-defined]

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
_FOREIGN = {
    b"\x04\x22\x4d\x18": "the lz4 command does",
    b"\xff\x06\x00\x00sNaPpY": "framed Snappy",
}
"""First bytes of compressed files that no Spark wrote; others are told by their first line."""


class Codec(Kind):
    """How a log is compressed."""

    PLAIN = "plain", "Not compressed."
    ZSTD = "zstd", "Zstandard (Spark's default since 3.0)."
    GZIP = "gzip", "gzip, several members too."
    BZIP2 = "bzip2", "bzip2, several streams too."
    LZ4_BLOCK = "lz4-block", "LZ4 as Spark writes it (lz4-java's block stream)."
    SNAPPY_XERIAL = "snappy-xerial", "Snappy as Spark writes it (snappy-java's stream)."
    LZF = "lzf", "LZF as Spark writes it (compress-lzf's stream)."


def detect(head: bytes) -> Codec:
    """Tell the codec from the first :data:`HEAD_BYTES` bytes of a stream.

    Anything unknown counts as plain text.
    """
    from iqcar.logs.decode import framing
    from iqcar.logs.decode.zstd import ZSTD_MAGIC, is_skippable

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
        framing.SNAPPY_XERIAL_MAGIC: Codec.SNAPPY_XERIAL,
    }
    return next((codec for magic, codec in magics.items() if head.startswith(magic)), Codec.PLAIN)


def decoded_pieces(stream: StoredStream) -> Iterator[bytes]:
    """Decode a stream of any codec, in bounded memory.

    Parameters
    ----------
    stream : at its beginning.

    The result is of any size, usually 32 KiB to 1 MiB, at most the largest block of the codec (32
    MiB).

    Raises DamageError where the data ends early, is damaged, or asks for too much memory; all that
    could be decoded before has been given then.
    """
    head = stream.head(HEAD_BYTES)
    codec = detect(head)
    if codec is Codec.PLAIN:
        check_foreign(head)
        return plain_chunks(stream)
    return map(bytes, _pieces(codec, stream))


def check_foreign(head: bytes) -> None:
    """Raise DamageError if first bytes are of a compressed file that no Spark wrote."""
    for magic, name in _FOREIGN.items():
        if head.startswith(magic):
            raise DamageError(
                f"it is compressed as {name}, which Spark never writes; decompress it first"
            )


def _pieces(codec: Codec, raw: Readable) -> Iterator[Buffer]:
    """Decode a stream that is compressed, in pieces of any size."""
    if codec is Codec.GZIP:
        return _library_pieces(raw, "gzip", lambda: zlib.decompressobj(wbits=_GZIP_BITS))
    if codec is Codec.BZIP2:
        return _library_pieces(raw, "bzip2", bz2.BZ2Decompressor)
    if codec is Codec.ZSTD:
        from iqcar.logs.decode.zstd import zstd_pieces

        return zstd_pieces(raw, PIECE_BYTES)
    return block_pieces(codec, raw)


def block_pieces(codec: Codec, raw: Readable) -> Iterator[Buffer]:
    """Decode a stream of one of Spark's own block codecs, a block at a time."""
    from iqcar.logs.decode import framing

    blocks = {
        Codec.LZ4_BLOCK: framing.lz4_blocks,
        Codec.SNAPPY_XERIAL: framing.snappy_xerial,
        Codec.LZF: framing.lzf_blocks,
    }
    return blocks[codec](raw)


def check_ratio(decoded: int, stored: int) -> None:
    """Stop a decompression bomb.

    Raises DamageError if `decoded` bytes came out of `stored` bytes, and no real log compresses
    like that.
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


def _library_pieces(raw: Readable, name: str, engine_of: Callable[[], Any]) -> Iterator[bytes]:
    """Decode streams that follow one another, with an engine of zlib or bz2 for each."""
    engine, data, inside = engine_of(), b"", False
    while True:
        if not data and getattr(engine, "needs_input", True):
            data = raw.read(PIECE_BYTES)
            if not data:
                break
        if not inside:
            data = data.lstrip(b"\0")  # tapes and block devices pad the end with zeros
            if not data:
                continue
        try:
            piece = engine.decompress(data, CHUNK_BYTES)
        except (zlib.error, OSError) as error:
            raise damaged(name) from error
        inside, data = True, getattr(engine, "unconsumed_tail", b"")
        yield piece
        if engine.eof:
            engine, data, inside = engine_of(), engine.unused_data, False
    if inside:
        if name == "gzip":
            yield engine.flush()
        raise unfinished(name)
