"""Decodes a stored stream that grows: what has come so far, as far as it can be decoded."""

from __future__ import annotations

import bz2
import io
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import zstandard

from iqcar.logs.decode.codecs import (
    HEAD_BYTES,
    MAX_WINDOW_BYTES,
    Codec,
    block_pieces,
    check_foreign,
    check_ratio,
    detect,
)
from iqcar.logs.decode.streams import UnfinishedError, damaged

FED_BYTES = 2 << 10
"""Stored bytes given to a library at a time (2 KiB): what comes out of them, at most 30,000 times
as much, is in memory at once."""
_GZIP_BITS = 31
_ENGINES: dict[Codec, Callable[[], Any]] = {
    Codec.GZIP: lambda: zlib.decompressobj(wbits=_GZIP_BITS),
    Codec.BZIP2: bz2.BZ2Decompressor,
    Codec.ZSTD: lambda: zstandard.ZstdDecompressor(
        max_window_size=MAX_WINDOW_BYTES
    ).decompressobj(),
}


class GrowingDecoder:
    """Decodes one stream, whose codec its first bytes tell.

    Attributes
    ----------
    stored_bytes, decoded_bytes : how many came in and went out.
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
