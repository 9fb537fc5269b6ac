"""Logs in object stores and remote file systems, through fsspec (the extra ``iqcar[remote]``)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, BinaryIO, NamedTuple, cast

from iqcar.errors import IqcarError
from iqcar.logs.find.history_server import is_hosted, open_zip

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

    Parameters
    ----------
    url : URL of a file or a folder, or a glob.
    depth : how many levels of folders to look into.

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
