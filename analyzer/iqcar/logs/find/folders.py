"""Local folders and patterns: the files in them, however links are laid."""

from __future__ import annotations

import glob
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from iqcar.base.files.opening import OutsideError, is_within, names_in
from iqcar.logs.decode.streams import why
from iqcar.logs.find.layouts import ROLLING_FOLDER, is_clutter

MAX_DEPTH = 8
"""Levels of folders searched below the one named. Databricks, the deepest known, delivers logs
five levels down (cluster / eventlog / cluster_address / context / eventlog)."""

_FILE_URL = re.compile(r"file:(?://[^/]*)?(?=/)", re.IGNORECASE)


class Found(NamedTuple):
    """A file, or the folder of a rolling log (reported before its files)."""

    path: Path
    is_folder: bool


def local_path(path: str) -> Path:
    """Return a path as the file system knows it: without ``file:``, and ``~`` spelt out."""
    if match := _FILE_URL.match(path):
        path = path[match.end() :]
        return Path(path) if Path(path).exists() else Path(unquote(path))
    return Path(path).expanduser() if path.startswith("~") else Path(path)


def matches(pattern: Path) -> list[Path]:
    """Return the files and folders that a pattern matches; empty if it is no pattern."""
    if not glob.has_magic(str(pattern)):
        return []
    found = glob.iglob(str(pattern), recursive=True)  # noqa: PTH207 - Path needs relative patterns
    return [Path(path) for path in sorted(found)]


def absence(path: Path) -> str:
    """Say why nothing is found at a path."""
    if glob.has_magic(str(path)):
        return "no file or folder matches this pattern"
    return "it is a link to nothing" if path.is_symlink() else "it does not exist"


def walk(
    roots: Iterable[Path], fail: Callable[[Path, str], None], within: Sequence[str] = ()
) -> Iterator[Found]:
    """Find the files at and below some places, hidden ones and checksums left out.

    Parameters
    ----------
    roots : files and folders.
    fail : called with a path that cannot be read, and why.
    within : folders out of which no link is followed; anywhere if there are none.

    The result is in the order of names. A folder is entered once, also where links lead back to it.
    """
    visited: set[tuple[int, int]] = set()
    waiting = [(root, 0) for root in reversed(list(roots))]
    while waiting:
        path, depth = waiting.pop()
        inside: list[Path] = []
        try:
            status = path.stat()
            identity = (status.st_dev, status.st_ino)
            if within and not is_within(str(path), within):
                raise OutsideError(str(path))
            if stat.S_ISREG(status.st_mode) and not is_clutter(path.name):
                yield Found(path, False)
            if stat.S_ISDIR(status.st_mode) and depth <= MAX_DEPTH and identity not in visited:
                visited.add(identity)
                if path.resolve().name.startswith(ROLLING_FOLDER):
                    yield Found(path, True)
                inside = sorted((path / name for name in names_in(str(path), within)), reverse=True)
        except FileNotFoundError:
            continue  # a dangling link, or what Spark has renamed just now
        except OSError as error:
            fail(path, f"it cannot be read: {why(error)}")
        waiting += [(child, depth + 1) for child in inside if not child.name.startswith(".")]
