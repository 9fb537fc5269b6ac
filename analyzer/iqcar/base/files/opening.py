"""Open files and folders that other users can change, safe from planted pipes and links.

Checks apply to what is opened. A name can refer to another file a moment after it was checked, so
a name is never checked and then opened: it is opened step by step without following links, or
opened and then checked.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, cast

LEADS_OUT = "it is a link that leads out of the served folders"
"""Message about a link that is not followed."""

NOFOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
NONBLOCK: int = getattr(os, "O_NONBLOCK", 0)
"""Opening a pipe without a writer returns at once; no effect on files."""

_READ: int = os.O_RDONLY | NONBLOCK | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
_PASS: int = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | NOFOLLOW
"""Flags to pass through a folder; with O_PATH this needs no permission to list it."""

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class OutsideError(OSError):
    """A name leads out of the folders that it must lie in."""

    def __init__(self, path: str) -> None:
        super().__init__(errno.EPERM, LEADS_OUT, path)


def open_file(path: str, within: Sequence[str] = ()) -> BinaryIO:
    """Open a regular file for reading; refuse anything else, without blocking.

    Parameters
    ----------
    within : folders and files, without links in their paths. One of them must contain the file
        after links are resolved; if empty, the file may be anywhere.

    Raises OutsideError if it lies outside of `within`. Raises OSError if it is no regular file or
    cannot be read.
    """
    return _regular(_descend(path, within, _READ) if within else os.open(path, _READ), path)


def names_in(path: str, within: Sequence[str] = ()) -> list[str]:
    """List a folder; raises as :func:`open_file`."""
    if not within:
        return os.listdir(path)  # noqa: PTH208 - the same for a path and a descriptor
    folder = _descend(path, within, _READ | getattr(os, "O_DIRECTORY", 0))
    try:
        return os.listdir(folder)  # noqa: PTH208 - pathlib knows no descriptors
    finally:
        os.close(folder)


def is_within(path: str, within: Sequence[str]) -> bool:
    """Tell whether a path, links resolved, is one of some folders and files or lies below one."""
    try:
        return _is_below(os.path.realpath(path, strict=True), within)
    except (OSError, ValueError):
        return False


def own_folder(path: Path) -> int:
    """Open a folder that only this user can write to; a link to one is refused.

    Returns its descriptor, which the caller closes.

    Raises OSError if it is anything else.
    """
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | NOFOLLOW)
    try:
        _check_own(os.fstat(folder), str(path))
    except OSError:
        os.close(folder)
        raise
    return folder


def read_own(folder: int, name: str) -> bytes:
    """Read a regular file in an open folder if only this user can write to it; raises OSError."""
    with _regular(os.open(name, _READ | NOFOLLOW, dir_fd=folder), name) as file:
        # A lax umask lets others write to the file, but they cannot enter a closed folder.
        closed = not os.fstat(folder).st_mode & (stat.S_IXGRP | stat.S_IXOTH)
        _check_own(os.fstat(file.fileno()), name, 0 if closed else _OTHERS_WRITE)
        return file.read()


def _regular(descriptor: int, path: str) -> BinaryIO:
    """Return a reader of an open regular file; close it and raise OSError if it is not regular."""
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return cast("BinaryIO", os.fdopen(descriptor, "rb", buffering=0))
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    raise OSError(errno.EINVAL, "it is no regular file", path)


def _descend(path: str, within: Sequence[str], flags: int) -> int:
    """Resolve a path's links, then open the result step by step without following links."""
    real = os.path.realpath(path, strict=True)
    if not _is_below(real, within):
        raise OutsideError(path)
    *folders, last = Path(real).parts
    with contextlib.ExitStack() as stack:
        at: int | None = None
        try:
            for name in folders:
                at = os.open(name, _PASS, dir_fd=at)
                stack.callback(os.close, at)
            return os.open(last, flags | NOFOLLOW, dir_fd=at)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EMLINK):
                raise OutsideError(path) from error  # it has just become a link
            raise


def _is_below(real: str, within: Sequence[str]) -> bool:
    above = {real, *map(str, Path(real).parents)}
    return any(root in above for root in within)


def _check_own(status: os.stat_result, path: str, forbidden: int = _OTHERS_WRITE) -> None:
    if status.st_uid != os.getuid() or status.st_mode & forbidden:
        raise PermissionError(errno.EPERM, "others can write to it", path)
