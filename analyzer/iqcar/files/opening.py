"""Opens files and folders that others may lay traps in: pipes, and links that lead elsewhere.

What is checked is what is opened. A name that was looked at can stand for another file a moment
later, so a name is never checked and then opened: it is opened step by step without following
links, or opened and then looked at.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

if TYPE_CHECKING:
    from collections.abc import Sequence

LEADS_OUT = "it is a link that leads out of the served folders"
"""What is said of a link that is not followed."""

NOFOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
NONBLOCK: int = getattr(os, "O_NONBLOCK", 0)
"""Opening a pipe that nobody writes to returns at once; without effect on files."""

_READ: int = os.O_RDONLY | NONBLOCK | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
_PASS: int = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | NOFOLLOW
"""To pass through a folder, which needs no permission to list it where the system has O_PATH."""

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class OutsideError(OSError):
    """A name leads out of the folders that it must lie in."""

    def __init__(self, path: str) -> None:
        super().__init__(errno.EPERM, LEADS_OUT, path)


def open_file(path: str, within: Sequence[str] = ()) -> BinaryIO:
    """Open a regular file for reading; nothing else is opened, and nothing is waited for.

    Parameters
    ----------
    path : str
    within : sequence of str
        Folders and files, without links in their paths, of which one must hold the file, links
        followed; without any it may lie anywhere.

    Raises
    ------
    OutsideError
        If it lies outside of `within`.
    OSError
        If it is no regular file or cannot be read.
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
    """Tell whether a path lies, links followed, in one of some folders, or is one of them."""
    try:
        return _is_below(os.path.realpath(path, strict=True), within)
    except (OSError, ValueError):
        return False


def own_folder(path: Path) -> int:
    """Open a folder that is this user's alone to write; no link to one.

    Returns
    -------
    int
        Its descriptor, to be closed.

    Raises
    ------
    OSError
        If it is anything else.
    """
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | NOFOLLOW)
    try:
        _check_own(os.fstat(folder), str(path))
    except OSError:
        os.close(folder)
        raise
    return folder


def read_own(folder: int, name: str) -> bytes:
    """Read a regular file in an open folder if it is this user's alone to write; raises OSError."""
    with _regular(os.open(name, _READ | NOFOLLOW, dir_fd=folder), name) as file:
        # A lax umask makes files that others may write to, but not in a folder closed to them.
        closed = not os.fstat(folder).st_mode & (stat.S_IXGRP | stat.S_IXOTH)
        _check_own(os.fstat(file.fileno()), name, 0 if closed else _OTHERS_WRITE)
        return file.read()


def _regular(descriptor: int, path: str) -> BinaryIO:
    """Return an open file as one to read; closes it and raises OSError if it is not regular."""
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return cast("BinaryIO", os.fdopen(descriptor, "rb", buffering=0))
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    raise OSError(errno.EINVAL, "it is no regular file", path)


def _descend(path: str, within: Sequence[str], flags: int) -> int:
    """Open what a path leads to, after all links, by steps of which none follows a link."""
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
