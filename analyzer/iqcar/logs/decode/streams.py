"""Streams of stored bytes: counted, read exactly, and what stops them early."""

from __future__ import annotations

import io
import os
import ssl
import time
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Buffer  # type: ignore[attr-defined]

CHUNK_BYTES = 1 << 20
"""Bytes read or decoded at a time (1 MiB): large enough that the cost per chunk vanishes, small
enough to stay in the processor's cache while its lines are split."""
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
