"""Logs behind URLs: object stores and remote file systems, through fsspec (``iqcar[remote]``)."""

from __future__ import annotations

import os
import re
import struct
import tempfile
import threading
import zipfile
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import lru_cache
from typing import Any, BinaryIO, NamedTuple, cast

from iqcar.base.files.derived import open_file
from iqcar.errors import IqcarError
from iqcar.logs.decode.streams import (
    CHUNK_BYTES,
    DamageError,
    Readable,
    StoredStream,
    decoded_pieces,
    why,
)
from iqcar.logs.find.history_server import is_hosted, open_zip
from iqcar.logs.find.layouts import IN_PROGRESS, LogPart

READ_AHEAD_BYTES = 8 << 20
"""Bytes asked of a remote store at a time (8 MiB): logs are read from front to back, and a request
takes tens of milliseconds."""

MOST_AT_ONCE_BYTES = 4 * READ_AHEAD_BYTES
"""Longest piece of a file that a web server may send (32 MiB): more than is asked for at a time."""

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_GLOB = re.compile(r"[*?\[]")
_SCHEMES = {"s3a": "s3", "s3n": "s3", "wasb": "abfs", "wasbs": "abfss"}
"""What Hadoop calls a store, and what fsspec calls it."""


class RemoteFile(NamedTuple):
    """A file of a remote store: the URL of its folder, its name there and its size."""

    folder: str
    name: str
    size_bytes: int

    @property
    def url(self) -> str:
        """URL of the file."""
        return f"{self.folder}/{self.name}"


def is_url(path: str) -> bool:
    """Tell whether a path is a URL (``file:`` counts as local)."""
    match = _URL.match(path)
    return match is not None and match[1].lower() != "file"


def open_url(url: str) -> BinaryIO:
    """Open a remote file for reading from front to back.

    Raises IqcarError if fsspec, or its part for this store, is not installed.
    """
    if is_hosted(url):
        return open_zip(url)
    system, path = _connect(url)
    # Without a type Google's store reads ahead in tasks of its own, which outlive the file.
    how = {"block_size": READ_AHEAD_BYTES, "cache_type": "readahead"}
    return cast("BinaryIO", system.open(path, "rb", **how))


def forget_listings(url: str) -> None:
    """Ask the store anew what is there, instead of what was there when it was asked last."""
    _connect(url)[0].invalidate_cache()


def remote_files(url: str, depth: int) -> Iterator[RemoteFile]:
    """List a remote file, or the files below a remote folder or glob.

    url: URL of a file or a folder, or a glob.
    depth: how many levels of folders to look into.

    Raises IqcarError if fsspec, or its part for this store, is not installed. Raises
    FileNotFoundError if nothing is there. Other errors are the store's own.
    """
    system, path = _connect(url)
    fixed = url
    if not url.lower().startswith("http") and (magic := _GLOB.search(url)):
        fixed = url[: url.rindex("/", 0, magic.start())]
        if fixed.endswith("/"):
            raise ValueError("a pattern can only stand below the bucket or host")
        found = system.glob(path, detail=True)
    else:
        found = {path: system.info(path)}
    base = _connect(fixed)[1] if fixed != url else path

    def folder_url(folder: str) -> str:
        below = folder.rstrip("/")[len(base.rstrip("/")) :]
        return fixed.rstrip("/") + below

    for place, info in sorted(found.items()):
        if info["type"] == "directory":
            yield from _below(system, place, depth, folder_url)
        elif place == path:
            folder, _, name = url.rpartition("/")
            yield RemoteFile(folder, name, info.get("size") or 0)
        else:
            folder, _, name = place.rpartition("/")
            yield RemoteFile(folder_url(folder), name, info.get("size") or 0)


def _below(system: Any, place: str, depth: int, folder_url: Any) -> Iterator[RemoteFile]:
    for folder, folders, files in system.walk(place, maxdepth=depth, detail=True):
        for name in [name for name in folders if name.startswith(".")]:
            del folders[name]
        for name, info in sorted(files.items()):
            if name:
                yield RemoteFile(folder_url(folder), name, info.get("size") or 0)


def _connect(url: str) -> tuple[Any, str]:
    """Return the file system of a URL, and the path in it."""
    scheme = url.split("://", 1)[0].lower()
    try:
        from fsspec.core import url_to_fs

        how = {"client_kwargs": _bounded()} if scheme in ("http", "https") else {}
        return cast("tuple[Any, str]", url_to_fs(for_fsspec(url), **how))
    except ImportError as error:
        raise IqcarError(
            f"reading {scheme}:// needs packages that are not installed ({error})",
            url,
            'install them: pip install "iqcar[remote]"',
        ) from error


@lru_cache(1)
def _bounded() -> dict[str, Any]:
    """Return what keeps a web server from sending a piece without end.

    Time is aiohttp's own matter: five minutes for each piece, whichever part of it drips.
    """
    from aiohttp import ClientPayloadError, ClientResponse

    class Bounded(ClientResponse):
        async def read(self) -> bytes:
            found = bytearray()
            async for chunk in self.content.iter_any():
                found += chunk
                if len(found) > MOST_AT_ONCE_BYTES:
                    raise ClientPayloadError("the server sends more than was asked for")
            return bytes(found)

    return {"response_class": Bounded}


def for_fsspec(url: str) -> str:
    """Write a Hadoop URL as fsspec names it."""
    scheme, rest = url.split("://", 1)
    scheme = scheme.lower()
    if scheme in ("wasb", "wasbs"):
        rest = rest.replace(".blob.core.", ".dfs.core.", 1)
    return f"{_SCHEMES.get(scheme, scheme)}://{rest}"


SNIFF_BYTES = 64 << 10
"""Decoded bytes looked at to tell an event log from any other file (64 KiB)."""

SNIFF_LINES = 3
"""Lines of which one must be an event: a damaged first line is forgiven, while a text that quotes
an event somewhere is no log."""

_EVENT = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{.{0,1000}?"Event"\s*:\s*"', re.DOTALL)


def open_source(source: str, within: Sequence[str] = ()) -> BinaryIO:
    """Open a local file (see :func:`~iqcar.base.files.derived.open_file`) or a URL for reading.

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

    file: the zip; it stays open.

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
