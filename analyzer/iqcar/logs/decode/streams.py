"""Streams of stored bytes: counted, read exactly, and what stops them early."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Buffer  # type: ignore[attr-defined]

CHUNK_BYTES = 1 << 20
"""Bytes read or decoded at a time (1 MiB): large enough that the cost per chunk vanishes, small
enough to stay in the processor's cache while its lines are split."""


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


class _Filled(io.RawIOBase):
    """A source that fills buffers to the end, and turns any failure into a DamageError."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def readable(self) -> bool:
        """Tell that it can be read."""
        return True

    def readinto(self, buffer: Buffer) -> int:
        """Fill the buffer, short only at the end of the source."""
        view = memoryview(buffer)
        filled = 0
        while filled < len(view):
            try:
                data = self._source.read(len(view) - filled)
            except Exception as error:  # any backend's own error type
                raise DamageError(f"reading stopped: {why(error)}") from error
            if not data:
                break
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

    Parameters
    ----------
    source : opened for reading; closed with this stream.
    stored_share : stored bytes per byte of the source: below 1 where the source decompresses (a zip
        member).
    """

    def __init__(self, source: Source, stored_share: float = 1.0) -> None:
        self._stored_share = stored_share
        self._buffer = io.BufferedReader(_Filled(source), CHUNK_BYTES)
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
