"""Opens files and writes results safely where other users can change files, planted links included.

The content goes to a new file in the target's folder, which is then renamed to the target. An
existing file is replaced, not written into; of a link, the link itself is replaced. Streams are
the exception, because they cannot be replaced: ``/dev/stdout`` and other descriptors,
``/dev/null``, terminals, and named pipes of the user's own are written into.

A process that is killed leaves its new file. The next one that writes in that folder removes it:
what is being written is locked, so it is no file that somebody still writes.

Checks apply to what is opened. A name can refer to another file a moment after it was checked, so
a name is never checked and then opened: it is opened step by step without following links, or
opened and then checked.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
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

    within: folders and files, without links in their paths. One of them must contain the file
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


if sys.platform != "win32":
    import fcntl

NEW_MODE = 0o666
"""Permissions of a new file (read and write for all) before the user's umask."""

LEFT_S = 3600.0
"""Age from which a file that nobody locks is what a killed process left: by then its writer has
locked it, and those of other hosts, whose locks some network file systems do not show, have written
into it."""

_PARTIAL = re.compile(r"\.iqcar-[0-9a-f]{16}")
_DESCRIPTORS = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}
_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/(\d{1,9})\Z")
_DEVICES = Path("/dev")
_NEW: int = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NOFOLLOW | getattr(os, "O_BINARY", 0)


def write_derived(
    target: str | Path, content: str | bytes | Iterable[str | bytes], *, durable: bool = False
) -> None:
    """Write a file of results.

    target: an existing file or link is replaced; a stream is written into.
    content: text is encoded as UTF-8, lone surrogates as question marks. Chunks are written as the
        iterable yields them; if it raises, the target stays as it was.
    durable: whether the content is on the disk before the file takes the target's name, so that
        not even a crash of the machine leaves half a file.

    Raises OSError if it cannot be written.
    """
    with _whole(Path(target)) as file:
        for chunk in (content,) if isinstance(content, (str, bytes)) else content:
            file.write(chunk.encode("utf-8", "replace") if isinstance(chunk, str) else chunk)
        if durable:
            file.flush()
            with suppress(OSError):  # a stream cannot be synchronised
                os.fsync(file.fileno())


def open_derived(target: str | Path) -> BinaryIO:
    """Open a new file that replaces the target at once, to be written over time.

    As :func:`write_derived`, but readers see what is written so far; raises OSError.
    """
    path = Path(target)
    if (stream := _stream(path)) is not None:
        return stream
    with _beside(path) as partial:
        file = _created(partial, path)
        try:
            partial.replace(path)
        except BaseException:
            file.close()
            raise
    return file


def open_to_append(target: str | Path) -> int:
    """Open a file for appending, created if missing; raises OSError, also for a link.

    Returns a descriptor; each write through it goes to the end.
    """
    path = Path(target)
    if (stream := _stream(path)) is not None:
        with stream:
            return os.dup(stream.fileno())
    if path.is_symlink():
        raise OSError(errno.ELOOP, "it is a link", str(path))
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | NOFOLLOW, 0o644)


def is_stream(path: Path) -> bool:
    """Tell whether a path is a stream, which is written into instead of being replaced.

    A named pipe of another user does not count: it may be there to capture the output.
    """
    if _descriptor(path) is not None:
        return True
    try:
        return _takes_in(path, path.lstat())
    except (OSError, ValueError):
        return False


def _takes_in(path: Path, status: os.stat_result) -> bool:
    if stat.S_ISFIFO(status.st_mode):
        return status.st_uid == os.geteuid()
    return stat.S_ISCHR(status.st_mode) and path.absolute().parent == _DEVICES


def _descriptor(path: Path) -> int | None:
    text = str(path)
    if (match := _DESCRIPTOR.match(text)) is not None:
        return int(match[1])
    return _DESCRIPTORS.get(text)


def _stream(path: Path) -> BinaryIO | None:
    """Open a stream; None if the path is not a stream."""
    if (descriptor := _descriptor(path)) is not None:
        # Duplicated: opening a redirected file by name would write from its start again.
        return cast("BinaryIO", os.fdopen(os.dup(descriptor), "wb"))
    if not is_stream(path):
        return None
    stream = cast("BinaryIO", os.fdopen(os.open(path, os.O_WRONLY | NOFOLLOW), "wb"))
    if not _takes_in(path, os.fstat(stream.fileno())):
        stream.close()
        raise OSError(errno.EINVAL, "it has become something else", str(path))
    return stream


@contextmanager
def _whole(path: Path) -> Iterator[BinaryIO]:
    """Yield a file to write into, renamed to the path at the end and removed on failure."""
    if (stream := _stream(path)) is not None:
        with stream:
            yield stream
        return
    with _beside(path) as partial:
        with _created(partial, path) as file:
            yield file
        partial.replace(path)


@contextmanager
def _beside(path: Path) -> Iterator[Path]:
    """Name a new file in the folder of a path, which is removed on failure.

    It is named before it is made: a signal can end the process at any step.
    """
    partial = path.with_name(f".iqcar-{secrets.token_hex(8)}")
    try:
        yield partial
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _created(partial: Path, path: Path) -> BinaryIO:
    """Create a file, with the permissions of the file at a path, which it will replace."""
    status = _replaced(path)
    file = cast("BinaryIO", os.fdopen(os.open(partial, _NEW, NEW_MODE), "wb"))
    try:
        if sys.platform != "win32":
            _lock(file.fileno())
            _remove_left(path.parent, os.fstat(file.fileno()))
        if status is not None:
            os.fchmod(file.fileno(), stat.S_IMODE(status.st_mode) & NEW_MODE)
    except BaseException:
        file.close()
        raise
    return file


def _lock(descriptor: int) -> bool:
    """Lock a file until it is closed; return whether that could be done."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # another process has it, or the file system knows no locks
        return False
    return True


def _remove_left(folder: Path, new: os.stat_result) -> None:
    """Remove what killed processes of this user left in a folder.

    new: of a file just made there, so that ages are told by the clock of the file system.
    """
    with suppress(OSError), os.scandir(folder) as entries:
        for each in entries:
            if not _PARTIAL.fullmatch(each.name):
                continue
            with suppress(OSError):
                descriptor = os.open(each.path, os.O_RDWR | os.O_NONBLOCK | NOFOLLOW)
                with os.fdopen(descriptor, "rb+", buffering=0):
                    of = os.fstat(descriptor)
                    is_own = stat.S_ISREG(of.st_mode) and of.st_uid == new.st_uid
                    if is_own and new.st_mtime - of.st_mtime > LEFT_S and _lock(descriptor):
                        Path(each.path).unlink()


def _replaced(path: Path) -> os.stat_result | None:
    """Return the status of the user's own file at a path; None for none, a link or another user's.

    Raises OSError if it must not be replaced by a file: a folder, a device or a pipe.
    """
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(status.st_mode):
        return None
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    own = hasattr(os, "geteuid") and status.st_uid == os.geteuid()
    return status if own else None
