"""Opening what a log is stored in, and telling from its first bytes what it is."""

from __future__ import annotations

import os
import re
import struct
import tempfile
import threading
import zipfile
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import ExitStack
from typing import BinaryIO, cast

from iqcar.base.files.opening import open_file
from iqcar.errors import IqcarError
from iqcar.logs.decode.codecs import decoded_pieces
from iqcar.logs.decode.streams import CHUNK_BYTES, DamageError, Readable, StoredStream, why
from iqcar.logs.find.layouts import IN_PROGRESS
from iqcar.logs.find.log_parts import LogPart
from iqcar.logs.find.remote import forget_listings, is_url, open_url

SNIFF_BYTES = 64 << 10
"""Decoded bytes looked at to tell an event log from any other file (64 KiB)."""

SNIFF_LINES = 3
"""Lines of which one must be an event: a damaged first line is forgiven, while a text that quotes
an event somewhere is no log."""

_EVENT = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{.{0,1000}?"Event"\s*:\s*"', re.DOTALL)


def open_source(source: str, within: Sequence[str] = ()) -> BinaryIO:
    """Open a local file (see :func:`~iqcar.base.files.opening.open_file`) or a URL for reading.

    A log whose application has ended since it was found is opened under its new name. Raises what
    the storage raises.
    """
    try:
        return open_url(source) if is_url(source) else open_file(source, within)
    except FileNotFoundError:
        if not source.endswith(IN_PROGRESS):
            raise
    return open_source(source.removesuffix(IN_PROGRESS), within)


def open_part(part: LogPart) -> StoredStream:
    """Open one part of a log.

    Raises DamageError if it cannot be opened. Raises IqcarError if what reads its kind of URL is
    not installed.
    """
    try:
        file = _open_front(part)
        return open_member(file, part.member) if part.member else StoredStream(file)
    except (DamageError, IqcarError):
        raise
    except Exception as error:  # any backend's own error type
        raise DamageError(f"it cannot be opened: {why(error)}") from error


def open_stored(part: LogPart) -> BinaryIO:
    """Open what is stored of a part, to be sought in: a zip's member is copied to a file first.

    Raises DamageError if the zip cannot be read; errors of the storage as they are.
    """
    file = open_source(part.source, part.within)
    if not part.member:
        return file
    with open_member(file, part.member) as member:
        return _copy(member)


def _open_front(part: LogPart) -> BinaryIO:
    """Open a part to be read from its front.

    Remote stores open what was there when they listed it, and fail when it is read. So the first
    bytes of a running application's log are read at once, and kept.
    """
    file = open_source(part.source, part.within)
    if is_url(part.source) and part.source.endswith(IN_PROGRESS):
        try:
            file.read(1)
            file.seek(0)
        except Exception:  # any backend's own error type
            file.close()
            forget_listings(part.source)
            return open_source(part.source, part.within)
    return file


def zip_members(source: str, within: Sequence[str] = ()) -> list[tuple[str, int]] | None:
    """List name and stored size of the files in a zip; None if the file is no zip.

    Raises DamageError if it is a zip that cannot be read. Errors of the storage are raised as they
    are.
    """
    with open_source(source, within) as file:
        if file.read(len(ZIP_MAGICS[0])) not in ZIP_MAGICS:
            return None
    with open_source(source, within) as file:
        return members(file)


def looks_like_log(part: LogPart) -> bool:
    """Tell whether the first decoded bytes of a file start with Spark events."""
    text = b""
    try:
        with open_part(part) as stream:
            for chunk in decoded_pieces(stream):
                text += chunk[:SNIFF_BYTES]
                if len(text) >= SNIFF_BYTES:
                    break
    except DamageError:
        pass
    lines = [line for line in text[:SNIFF_BYTES].split(b"\n") if line.strip()]
    return any(_EVENT.match(line) for line in lines[:SNIFF_LINES])


ZIP_MAGICS = (b"PK\x03\x04", b"PK\x05\x06")
"""How a zip starts; the second is one without members."""

MAX_DIRECTORY_BYTES = 8 << 20
"""Largest directory of a zip that is read (8 MiB; a member takes some 100 bytes)."""

MAX_MEMBERS = 20_000
"""Most members of a zip, as many as `iqcar serve` lists logs. The History Server packs one
application: a few attempts, each of a few hundred rolling files at most."""

KEPT_DIRECTORIES = 4
"""Directories that are remembered: else each member would be found by reading all of it again."""

LOCAL_HEADER = struct.Struct("<4s22xHH")
"""What stands before a member's name: magic, and the lengths of the name and of what follows it."""

MAX_COPY_BYTES = 4 << 30
"""Largest zip that is copied to a temporary file because its server cannot seek (4 GiB)."""


def members(file: BinaryIO) -> list[tuple[str, int]]:
    """List the files in a zip.

    Parameters
    ----------
    file : the zip; it stays open.

    Returns name and stored size in bytes.

    Raises DamageError if it is no readable zip, has more than :data:`MAX_MEMBERS` members, or
    members that overlap.
    """
    with ExitStack() as stack:
        entries = _directory(_seekable(file, stack)).values()
        return [(one.filename, one.compress_size) for one in entries if not one.is_dir()]


def open_member(file: BinaryIO, member: str) -> StoredStream:
    """Open a member of a zip; closing it closes `file`, and so does failing to open it.

    Raises DamageError if the zip or the member cannot be read.
    """
    with ExitStack() as stack:
        stack.callback(file.close)
        file = _seekable(file, stack)
        try:
            entry = _directory(file)[member]
            if entry.flag_bits & 1:
                raise DamageError("the zip is encrypted; unpack it first")
            file.seek(entry.header_offset)
            magic, name, extra = LOCAL_HEADER.unpack(file.read(LOCAL_HEADER.size))
            if magic != ZIP_MAGICS[0]:
                raise DamageError("the zip is damaged: a member is not where it should be")
            file.seek(name + extra, os.SEEK_CUR)
            content = stack.enter_context(zipfile.ZipExtFile(file, "r", entry))
        except (KeyError, NotImplementedError, struct.error) as error:
            raise DamageError(f"the zip is damaged or of an unknown kind ({error})") from error
        share = entry.compress_size / max(1, entry.file_size)
        return StoredStream(_Member(content, stack.pop_all()), share)
    raise AssertionError("unreachable")


class _Member:
    """The content of a zip's member, with all that has to be closed after it."""

    def __init__(self, content: zipfile.ZipExtFile | object, stack: ExitStack) -> None:
        self._stack = stack
        self.read = content.read  # type: ignore[union-attr]

    def close(self) -> None:
        """Close the member, the zip and its file."""
        self._stack.close()


class _Limited:
    """A file that refuses to read a huge piece at once, as a huge zip directory would be."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.seek, self.tell = file.seek, file.tell

    def seekable(self) -> bool:
        """Tell that it can be sought in."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Read up to `size` bytes."""
        if size > MAX_DIRECTORY_BYTES:
            raise DamageError(f"the zip's directory is larger than {MAX_DIRECTORY_BYTES >> 20} MiB")
        return self._file.read(size)

    def close(self) -> None:
        """Leave the file to its owner."""


def _seekable(file: BinaryIO, stack: ExitStack) -> BinaryIO:
    return file if file.seekable() else stack.enter_context(_copy(file))


def _directory(file: BinaryIO) -> dict[str, zipfile.ZipInfo]:
    """Return the members of a zip by name; of several of a name the last."""
    try:
        status = os.fstat(file.fileno())
    except (AttributeError, OSError):  # a remote object
        return _read_directory(file)
    identity = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
    with _KEEPING:
        if identity not in _KEPT:
            _KEPT[identity] = _read_directory(file)
        _KEPT.move_to_end(identity)
        while len(_KEPT) > KEPT_DIRECTORIES:
            _KEPT.popitem(last=False)
        return _KEPT[identity]


_KEPT: OrderedDict[tuple[int, ...], dict[str, zipfile.ZipInfo]] = OrderedDict()
_KEEPING = threading.Lock()


def _read_directory(file: BinaryIO) -> dict[str, zipfile.ZipInfo]:
    try:
        with zipfile.ZipFile(cast("BinaryIO", _Limited(file))) as opened:
            entries = opened.infolist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        raise DamageError(f"the zip is damaged or cut off ({error})") from error
    if len(entries) > MAX_MEMBERS:
        raise DamageError(f"the zip has {len(entries):,} members; at most {MAX_MEMBERS:,} are read")
    end = 0
    for entry in sorted(entries, key=lambda one: one.header_offset):
        if entry.header_offset < end:
            raise DamageError("its members overlap: it is damaged, or made to do harm")
        end = entry.header_offset + LOCAL_HEADER.size + entry.compress_size
    return {entry.filename: entry for entry in entries}


def _copy(file: Readable) -> BinaryIO:
    """Copy a stream to a temporary file, to seek in it."""
    copy = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115 - the caller closes it
    size = 0
    while chunk := file.read(CHUNK_BYTES):
        size += len(chunk)
        if size > MAX_COPY_BYTES:
            copy.close()
            raise DamageError(
                f"the zip is larger than {MAX_COPY_BYTES >> 30} GiB; download it first"
            )
        copy.write(chunk)
    copy.seek(0)
    return copy
