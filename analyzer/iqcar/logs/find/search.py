"""Looking through folders, zips and remote stores for files that may be event logs."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from iqcar.errors import IqcarError
from iqcar.logs.decode.streams import DamageError, why
from iqcar.logs.find.folders import MAX_DEPTH, absence, local_path, matches, walk
from iqcar.logs.find.layouts import ROLLING_FOLDER, is_clutter
from iqcar.logs.find.log_parts import Folder, LogPart, Unreadable, printable
from iqcar.logs.find.remote import is_url, remote_files
from iqcar.logs.find.storage import zip_members

MAX_FILES = 100_000
"""Files looked at per path given: more, and it is not a folder of event logs."""

_ONLY_SOME = f"only the first {MAX_FILES:,} files here were looked at"


@dataclass
class Find:
    """What one given path led to: folders with files, and failures."""

    path: str
    folders: dict[str, None] = field(default_factory=dict)
    failures: list[Unreadable] = field(default_factory=list)

    def fail(self, path: str | Path, message: str) -> None:
        """Note a path that cannot be read."""
        self.failures.append(Unreadable(printable(path), message))


class Search:
    """Collects files by folder; a file that is reached twice is collected once.

    Parameters
    ----------
    within : folders out of which no link is followed; anywhere if there are none.
    """

    def __init__(self, within: tuple[str, ...] = ()) -> None:
        self._within = within
        self.folders: dict[str, Folder] = {}
        self._seen: dict[object, tuple[str, str]] = {}

    def look(self, path: str) -> Find:
        """Look at one path that the user gave."""
        find = Find(printable(path))
        if not path:
            find.fail(path, "the path is empty")
        elif is_url(path):
            self._look_remote(path, find)
        else:
            self._look_local(local_path(path), find)
        return find

    def _look_local(self, path: Path, find: Find) -> None:
        try:
            mode = path.stat().st_mode
        except FileNotFoundError:
            if found := matches(path):
                self._look_below(found, find)
            else:
                find.fail(path, absence(path))
        except (OSError, ValueError) as error:
            find.fail(path, f"it cannot be read: {why(error)}")
        else:
            if stat.S_ISDIR(mode):
                self._look_below([path], find)
            elif stat.S_ISREG(mode):
                self._add_file(path, find, named=True)
            else:
                find.fail(path, "it is neither a file nor a folder")

    def _look_below(self, roots: Iterable[Path], find: Find) -> None:
        """Add the files among `roots` and below them."""
        for count, (path, is_folder) in enumerate(walk(roots, find.fail, self._within)):
            if count == MAX_FILES:
                find.fail(find.path, _ONLY_SOME)
                return
            if is_folder:
                self._folder(path, find)
            else:
                self._add_file(path, find, named=False)

    def _add_file(self, path: Path, find: Find, *, named: bool) -> None:
        try:
            status = path.stat()
            entries = zip_members(str(path), self._within)
        except FileNotFoundError:
            return  # Spark has renamed it just now
        except (OSError, DamageError) as error:
            find.fail(path, f"it cannot be read: {why(error)}")
            return
        identity = (status.st_dev, status.st_ino)
        if entries is not None:
            self._add_members(str(path), entries, identity, find)
            return
        part = LogPart(printable(path), str(path), status.st_size, within=self._within)
        self._add(self._folder(path.parent, find), path.name, part, identity, find, named=named)

    def _folder(self, path: Path, find: Find) -> str:
        """Register a local folder and return its key, the same however the folder is reached."""
        resolved = path.resolve()
        shown = "" if str(path) == os.curdir else printable(path)
        self.folders.setdefault(str(resolved), Folder(shown, resolved.name, os.sep))
        if resolved.name.startswith(ROLLING_FOLDER):
            find.folders[str(resolved)] = None
        return str(resolved)

    def _add(
        self, key: str, name: str, part: LogPart, identity: object, find: Find, *, named: bool
    ) -> None:
        key, name = self._seen.setdefault(identity, (key, name))
        folder = self.folders[key]
        folder.parts.setdefault(name, part)
        find.folders[key] = None
        if named:
            folder.named.add(name)

    def _add_members(
        self, source: str, entries: list[tuple[str, int]], identity: object, find: Find
    ) -> None:
        """Add the files in a zip; its folders are told apart like folders on disk."""
        shown = printable(source)
        for member, size in entries:
            parent, _, name = member.rpartition("/")
            if not name or is_clutter(name):
                continue
            key = f"{identity}::{parent}"
            folder = Folder(
                f"{shown}::{printable(parent)}", parent.rpartition("/")[2], "/" if parent else ""
            )
            self.folders.setdefault(key, folder)
            part = LogPart(f"{shown}::{printable(member)}", source, size, member, self._within)
            self._add(key, name, part, (identity, member), find, named=False)

    def _look_remote(self, url: str, find: Find) -> None:
        try:
            for count, file in enumerate(islice(remote_files(url, MAX_DEPTH), MAX_FILES + 1)):
                if count == MAX_FILES:
                    find.fail(url, _ONLY_SOME)
                elif file.url == url or not is_clutter(file.name):
                    self._add_remote(file.folder, file.name, file.size_bytes, file.url == url, find)
        except IqcarError:
            raise
        except Exception as error:  # any backend's own error type
            find.fail(url, f"it cannot be read: {why(error)}")

    def _add_remote(self, folder: str, name: str, size: int, named: bool, find: Find) -> None:
        url = f"{folder}/{name}"
        if (named or name.endswith(".zip")) and (entries := zip_members(url)) is not None:
            self._add_members(url, entries, url, find)
            return
        self.folders.setdefault(folder, Folder(folder, folder.rpartition("/")[2], "/"))
        self._add(folder, name, LogPart(url, url, size), url, find, named=named)
