"""Streams of stored bytes: what they are compressed with, and their decoded chunks.

Codecs are told from the first bytes. Suffixes are not asked: logs get renamed, and Spark's own
``.lz4`` and ``.snappy`` are not the formats that other tools give these suffixes.

Declared lengths of blocks are checked before anything of that length is allocated. Checksums are
not verified: damage shows as a block that does not decode, or as lines that are not events.
"""

from __future__ import annotations

import bz2
import io
import os
import ssl
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, cast

import cramjam
import zstandard

from iqcar.enums import Kind

if TYPE_CHECKING:
    from collections.abc import Buffer  # type: ignore[attr-defined]


CHUNK_BYTES = 1 << 20
"""Bytes read or decoded at a time (1 MiB): large enough that the cost per chunk vanishes, small
enough to stay in the processor's cache while its lines are split."""
AHEAD_BYTES = CHUNK_BYTES
"""Stored bytes read ahead, of which the first tell the codec."""
NOT_FOUND = 404
MOST_WAITED_S = 3600.0
"""Seconds that what is read may be waited for in all (an hour): a store that sends a little at a
time would else be read for days."""


class DamageError(Exception):
    """Reading stopped before the end; the text is a sentence for the user."""


class UnfinishedError(DamageError):
    """Compressed data ended before its end was written."""


class BombError(DamageError):
    """The data is far more than any log holds: nothing further is read."""


class Readable(Protocol):
    """What a codec reads from."""

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes; fewer only at the end."""


class Source(Protocol):
    """An open file, zip member or remote object."""

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes, none at the end."""

    def close(self) -> None:
        """Release it."""


def why(error: BaseException) -> str:
    """Describe a failure of the storage in a few words, without the path."""
    cause: BaseException | None = error
    while cause is not None:  # stores wrap it, one in what says that nothing is there
        if isinstance(cause, ssl.SSLError) and hasattr(cause, "reason"):  # aiohttp's own have none
            return _why_not_trusted(cause)
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, FileNotFoundError) and (cause := error.__cause__) is not None:
        # fsspec says of any answer but a good one that nothing is there.
        if isinstance(status := getattr(cause, "status", None), int) and status != NOT_FOUND:
            return f"the server answers {status}"
        if isinstance(cause, OSError) or "Timeout" in type(cause).__name__:
            return why(cause)
    if "Timeout" in type(error).__name__:  # before Python 3.11 there are several
        return "it does not answer in time"
    if isinstance(error, PermissionError):
        return "permission denied"
    if isinstance(error, FileNotFoundError):
        return "it does not exist"
    if isinstance(error, IsADirectoryError):
        return "it is a folder"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


_EXPIRED, _NOT_YET = 10, 9
_OF_OTHERS = (62, 64)
"""What OpenSSL calls a certificate that has ended, one that has not begun, and one for another name
or address."""


def _why_not_trusted(error: ssl.SSLError) -> str:
    """Say what is wrong with a server's TLS, and what to do."""
    if not isinstance(error, ssl.SSLCertVerificationError):
        told = (error.reason or type(error).__name__).replace("_", " ").lower()
        return f"TLS fails ({told}); is it a server of https?"
    said = error.verify_message.rstrip(".")
    if error.verify_code == _EXPIRED:
        return f"its {said}: whoever runs the server has to renew it, or this clock is wrong"
    if error.verify_code == _NOT_YET:
        return f"its {said}: the server's clock or this one is wrong"
    if error.verify_code in _OF_OTHERS:
        return f"its certificate is for another host ({said}); use the name that it is for"
    given = os.environ.get("SSL_CERT_FILE", "")
    advice = "name the file of its authority in SSL_CERT_FILE (of S3's in AWS_CA_BUNDLE)"
    if given and not Path(given).is_file():
        advice = "SSL_CERT_FILE names no file"
    return f"its certificate is not trusted ({said}); {advice}"


class _Filled(io.RawIOBase):
    """A source that fills buffers to the end, and turns any failure into a DamageError."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._waited_s = 0.0

    def readable(self) -> bool:
        """Tell that it can be read."""
        return True

    def readinto(self, buffer: Buffer) -> int:
        """Fill the buffer, short only at the end of the source."""
        view = memoryview(buffer)
        filled = 0
        while filled < len(view):
            began = time.monotonic()
            try:
                data = self._source.read(len(view) - filled)
            except Exception as error:  # any backend's own error type
                raise DamageError(f"reading stopped: {why(error)}") from error
            if not data:
                break
            self._waited_s += time.monotonic() - began
            if self._waited_s > MOST_WAITED_S:
                raise DamageError("it comes too slowly: reading was given up")
            view[filled : filled + len(data)] = data
            filled += len(data)
        return filled

    def close(self) -> None:
        """Close the source."""
        if not self.closed:
            self._source.close()
        super().close()


class StoredStream:
    """A source read through a buffer, with the number of bytes taken from it.

    source: opened for reading; closed with this stream.
    stored_share: stored bytes per byte of the source: below 1 where the source decompresses (a zip
        member).
    """

    def __init__(self, source: Source, stored_share: float = 1.0) -> None:
        self._stored_share = stored_share
        self._buffer = io.BufferedReader(_Filled(source), AHEAD_BYTES)
        self._count = 0

    def read(self, size: int, /) -> bytes:
        """Return `size` bytes, fewer only at the end; raises DamageError where storage fails."""
        data = self._buffer.read(size)
        self._count += len(data)
        return data

    @property
    def stored_bytes(self) -> int:
        """Stored bytes taken from the source so far."""
        return int(self._count * self._stored_share)

    def head(self, size: int) -> bytes:
        """Return the next `size` bytes without consuming them."""
        return self._buffer.peek(size)[:size]

    def __enter__(self) -> StoredStream:
        return self

    def __exit__(self, *_: object) -> None:
        self._buffer.close()


def exactly(raw: Readable, size: int, codec: str) -> bytes:
    """Return exactly `size` bytes.

    Raises DamageError if the stream ends before.
    """
    data = raw.read(size)
    if len(data) < size:
        raise unfinished(codec)
    return data


def unfinished(codec: str) -> UnfinishedError:
    """Say that a compressed stream has no end."""
    return UnfinishedError(
        f"the {codec} data ends in the middle of a block (unfinished or cut off)"
    )


def damaged(codec: str) -> DamageError:
    """Say that a compressed stream cannot be decoded any further."""
    return DamageError(f"the {codec} data is damaged; what comes after the damage is lost")


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
    if head.startswith(LZF_MAGIC) and head[2:3] in (b"\x00", b"\x01"):
        return Codec.LZF
    if head.startswith(b"BZh") and head[4:10] in (b"1AY&SY", b"\x17rE8P\x90"):
        return Codec.BZIP2
    if is_skippable(head):
        return Codec.ZSTD
    magics = {
        ZSTD_MAGIC: Codec.ZSTD,
        b"\x1f\x8b": Codec.GZIP,
        LZ4_BLOCK_MAGIC: Codec.LZ4_BLOCK,
        SNAPPY_XERIAL_MAGIC: Codec.SNAPPY_XERIAL,
    }
    return next((codec for magic, codec in magics.items() if head.startswith(magic)), Codec.PLAIN)


def decoded_pieces(stream: StoredStream) -> Iterator[bytes]:
    """Decode a stream of any codec, in bounded memory.

    stream: at its beginning.

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
        return zstd_pieces(raw, PIECE_BYTES)
    return block_pieces(codec, raw)


def block_pieces(codec: Codec, raw: Readable) -> Iterator[Buffer]:
    """Decode a stream of one of Spark's own block codecs, a block at a time."""
    blocks = {
        Codec.LZ4_BLOCK: lz4_blocks,
        Codec.SNAPPY_XERIAL: snappy_xerial,
        Codec.LZF: lzf_blocks,
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


FED_BYTES = 2 << 10
"""Stored bytes given to a library at a time (2 KiB): what comes out of them, at most 30,000 times
as much, is in memory at once."""

_ENGINES: dict[Codec, Callable[[], Any]] = {
    Codec.GZIP: lambda: zlib.decompressobj(wbits=_GZIP_BITS),
    Codec.BZIP2: bz2.BZ2Decompressor,
    Codec.ZSTD: lambda: zstandard.ZstdDecompressor(
        max_window_size=MAX_WINDOW_BYTES
    ).decompressobj(),
}


class GrowingDecoder:
    """Decodes one stream, whose codec its first bytes tell.

    stored_bytes, decoded_bytes: how many came in and went out.
    """

    def __init__(self) -> None:
        self.stored_bytes = self.decoded_bytes = 0
        self._codec: Codec | None = None
        self._held = b""
        self._engine: Any = None

    def add(self, data: bytes) -> Iterator[bytes]:
        """Yield what can be decoded now that some more bytes have come.

        Raises DamageError if they cannot be decoded, now or with any that may follow.
        """
        self.stored_bytes += len(data)
        if self._codec is None:
            self._held += data
            if len(self._held) < HEAD_BYTES:
                return
            self._codec, data, self._held = detect(self._held), self._held, b""
            if self._codec is Codec.PLAIN:
                check_foreign(data)
        for piece in self._pieces(data, self._codec):
            self.decoded_bytes += len(piece)
            check_ratio(self.decoded_bytes, self.stored_bytes)
            yield piece

    def _pieces(self, data: bytes, codec: Codec) -> Iterator[bytes]:
        if codec is Codec.PLAIN:
            yield data
        elif codec in _ENGINES:
            yield from self._from_library(data, codec)
        else:
            yield from self._from_blocks(data, codec)

    def _from_library(self, data: bytes, codec: Codec) -> Iterator[bytes]:
        for start in range(0, len(data), FED_BYTES):
            part = data[start : start + FED_BYTES]
            while part:
                if self._engine is None:
                    part = part.lstrip(b"\0")  # padding of tapes and block devices
                    if not part:
                        break
                    self._engine = _ENGINES[codec]()
                try:
                    piece = self._engine.decompress(part)
                except (zlib.error, OSError, zstandard.ZstdError) as error:
                    raise damaged(str(codec)) from error
                part = b""
                if self._engine.eof:
                    part, self._engine = self._engine.unused_data, None
                if piece:
                    yield piece

    def _from_blocks(self, data: bytes, codec: Codec) -> Iterator[bytes]:
        """Decode whole blocks; the start of one that has not come whole is kept."""
        self._held += data
        raw, done = io.BytesIO(self._held), 0
        try:
            for block in block_pieces(codec, raw):
                done = raw.tell()
                yield bytes(block)
        except UnfinishedError:
            pass
        else:
            done = raw.tell()
        self._held = self._held[done:]
