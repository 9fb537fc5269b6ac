"""Finding the event logs in what a user names: files, folders, globs, zips and URLs."""

from __future__ import annotations

import glob
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import numpy as np
import pandas as pd

from iqcar.base.files.derived import OutsideError, is_within, names_in
from iqcar.base.units import duration, moment
from iqcar.errors import IqcarError
from iqcar.logs.decode.streams import DamageError, why
from iqcar.logs.find.history_server import (
    API,
    Place,
    SeveralError,
    forget_zip,
    hosted_logs,
    is_hosted,
    place_of,
)
from iqcar.logs.find.http_client import RefusedError
from iqcar.logs.find.layouts import (
    COMPACT,
    ROLLING_FOLDER,
    EventLog,
    Folder,
    Layout,
    LogPart,
    Unreadable,
    arrange,
    is_clutter,
    is_status,
    printable,
)
from iqcar.logs.find.storage import is_url, looks_like_log, remote_files, zip_members
from iqcar.tables.arrays import Ints

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

    roots: files and folders.
    fail: called with a path that cannot be read, and why.
    within: folders out of which no link is followed; anywhere if there are none.

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


MAX_FILES = 100_000
"""Files looked at per path given: more, and it is not a folder of event logs."""

_ONLY_SOME = f"only the first {MAX_FILES:,} files here were looked at"


@dataclass
class Find:
    """What one given path led to: folders with files, logs of a server, and failures."""

    path: str
    folders: dict[str, None] = field(default_factory=dict)
    failures: list[Unreadable] = field(default_factory=list)
    hosted: list[EventLog] = field(default_factory=list)

    def fail(self, path: str | Path, message: str) -> None:
        """Note a path that cannot be read."""
        self.failures.append(Unreadable(printable(path), message))


class Search:
    """Collects files by folder; a file that is reached twice is collected once.

    within: folders out of which no link is followed; anywhere if there are none.
    one_hosted: refuse a History Server of which nothing was chosen, unless it has one application.
    """

    def __init__(self, within: tuple[str, ...] = (), one_hosted: bool = False) -> None:
        self._within = within
        self._one_hosted = one_hosted
        self.folders: dict[str, Folder] = {}
        self._seen: dict[object, tuple[str, str]] = {}

    def look(self, path: str) -> Find:
        """Look at one path that the user gave."""
        find = Find(printable(path))
        if not path:
            find.fail(path, "the path is empty")
        elif is_url(path):
            self._look_at_url(path, find)
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

    def _look_at_url(self, url: str, find: Find) -> None:
        """Ask for a History Server; where there may be one and is none, look for files."""
        place = place_of(url)
        if place is None:
            self._look_remote(url, find)
        elif not _look_at_server(url, place, find, self._one_hosted):
            try:
                self._look_remote(url, find)
            except IqcarError:
                find.folders.clear()
            if not find.folders:
                find.failures = [Unreadable(find.path, NO_SERVER)]

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


def _look_at_server(url: str, place: Place, find: Find, one_hosted: bool) -> bool:
    """Add what a History Server has at a URL; tell whether it is one."""
    try:
        find.hosted = hosted_logs(place)
    except RefusedError as error:
        if error.status == 404 and not place.certain:
            return False  # files behind a web server
        unknown = error.status == 404 and place.app
        find.fail(url, f"this server knows no application {place.app}" if unknown else str(error))
    except DamageError as error:
        find.fail(url, str(error))
    else:
        if not find.hosted:
            find.fail(url, NOTHING_HOSTED)
        if one_hosted and len(find.hosted) > 1 and not (place.app or place.chosen):
            raise SeveralError(place.root, find.hosted)
    return True


NO_SERVER = f"no History Server (its {API} answers 404), and no event log"
"""What is said of a web server that has neither."""

NO_LOG_IN_ZIP = (
    "the server's zip holds no event log; a driver's own page never has one: name a History Server"
)

NOTHING_HOSTED = "this History Server has no such application"
"""What is said of a server where nothing is chosen."""

NO_LOG = (
    "no event log here: no file is named like one or starts with Spark events; "
    "give the file or folder that Spark writes event logs to (spark.eventLog.dir)"
)
"""What is said of a folder, pattern or zip without event logs."""

__all__ = ["EventLog", "LogPart", "Unreadable", "locate"]


def locate(
    paths: Sequence[str | Path], within: Sequence[str] = (), *, one_hosted: bool = False
) -> list[EventLog | Unreadable]:
    """Find every event log in the given places.

    A file that the user names is read whatever it looks like. In a folder, a glob or a zip, files
    are taken that Spark names like event logs or that start with Spark events; all others are
    passed over. A log that is reached twice is read once.

    paths: files, folders (searched to a depth of :data:`~iqcar.logs.find.locate.MAX_DEPTH`),
        globs, rolling folders, zips, or URLs.
    within: folders, without links in their paths, out of which no link is followed, now or when a
        log is read; links are followed anywhere by default.
    one_hosted: refuse a History Server of which nothing was chosen, unless it has one application.

    The result is in the order of `paths`. A path without a log is an Unreadable; nothing else is
    raised.

    Raises IqcarError if a URL needs a package that is not installed; UsageError if one chooses
    applications by what nobody knows; SeveralError as `one_hosted` says.
    """
    search = Search(tuple(within), one_hosted)
    finds = [search.look(str(path)) for path in paths]
    arranged: dict[str, list[EventLog | Unreadable]] = {}
    result: list[EventLog | Unreadable] = []
    for find in finds:
        result += [*find.failures, *find.hosted]
        anything = bool(find.failures or find.hosted)
        for key in find.folders:
            if key not in arranged:
                arranged[key] = _logs(search.folders[key])
                result += arranged[key]
            anything = anything or bool(arranged[key])
        if not anything:
            result.append(Unreadable(find.path, NO_LOG))
    return list(dict.fromkeys(result))


def _logs(folder: Folder) -> list[EventLog | Unreadable]:
    layouts = arrange(folder.name, list(folder.parts))
    logs: list[EventLog | Unreadable] = []
    for layout in layouts:
        if not layout.names:
            logs.append(Unreadable(folder.path, layout.problem))
        elif _is_wanted(layout, folder):
            logs.append(
                EventLog(
                    folder.shown(layout.title),
                    tuple(folder.parts[name] for name in layout.names),
                    layout.in_progress,
                    layout.attempt_id,
                    layout.problem,
                )
            )
    if not logs and any(is_status(name) for name in folder.named):
        message = "this file only marks a rolling event log; name the folder it is in"
        logs += [Unreadable(folder.shown(name), message) for name in sorted(folder.named)]
    return logs


def _is_wanted(layout: Layout, folder: Folder) -> bool:
    return (
        layout.named_by_spark
        or not folder.named.isdisjoint(layout.names)
        or looks_like_log(folder.parts[layout.names[0]])
    )


def unpacked(log: EventLog) -> EventLog:
    """Return a log whose parts can be read: of one on a History Server, what its zip holds now.

    Raises DamageError if the zip cannot be downloaded or read; UsageError as :func:`locate`.
    """
    source = log.parts[0].source
    if log.parts[0].member or not is_hosted(source):
        return log
    forget_zip(source)
    search, find = Search(), Find(log.path)
    entries = zip_members(source)
    if entries is None:
        raise DamageError("the server sends no zip of the log")
    search._add_members(source, entries, source, find)
    found = [one for key in find.folders for one in _logs(search.folders[key])]
    logs = [one for one in found if isinstance(one, EventLog)]
    if not logs:
        raise DamageError(NO_LOG_IN_ZIP)
    if len(logs) > 1:
        raise DamageError(f"the server's zip holds {len(logs)} event logs in place of one")
    return replace(log, parts=logs[0].parts, problem=logs[0].problem)


MOST_RANGES = 4
"""Ranges of ids that are named; the number of all is told in any case."""


class Gone(NamedTuple):
    """What compaction dropped.

    until_ms : the latest that a dropped job can have run; NaN where nothing was dropped.
    message : which jobs, stages and SQL executions are missing, and from when to when.
    """

    until_ms: float
    message: str


def is_compacted(log: EventLog) -> bool:
    """Tell whether a file of the log was rewritten by compaction."""
    return any(part.path.endswith(COMPACT) for part in log.parts)


def gone(frames: Mapping[str, pd.DataFrame]) -> Gone:
    """Tell what is missing from the tables of a log that was compacted.

    A dropped job was submitted after the kept one with the next smaller id, or else after the
    application's start. It had ended when Spark compacted, and then no kept job had.
    """
    jobs = frames["jobs"]
    ids = jobs["job_id"].to_numpy(np.int64)
    missing = {
        "job": _gaps(ids),
        "stage": _gaps(frames["stages"]["stage_id"].to_numpy(np.int64)),
        "SQL execution": _gaps(frames["sql_executions"]["execution_id"].to_numpy(np.int64)),
    }
    named = [_named(noun, gaps) for noun, gaps in missing.items() if gaps]
    if not named:
        return Gone(np.nan, "compacted: no job that had finished is missing below those kept")
    application = frames["applications"].iloc[0]
    start, end = float(application["start_ms"]), float(application["end_ms"])
    submitted, completed = (
        jobs[name].to_numpy(np.float64) for name in ("submission_ms", "completion_ms")
    )
    first = missing["job"][0][0] if missing["job"] else 0
    since = float(np.fmax.reduce(submitted[ids < first], initial=start))
    until = float(np.fmin.reduce(completed, initial=end))
    return Gone(
        until,
        f"compacted: Spark dropped {', '.join(named)}, which had finished. {_period(since, until)} "
        f"({duration(max(since - start, 0.0))} to {duration(max(until - start, 0.0))} after the "
        "application's start) what they held is not known: those that were in the way may be "
        "missing, and the load of executors is a lower bound",
    )


def _period(since: float, until: float) -> str:
    return f"From {moment(since)} to {moment(until)} at the latest"


def _gaps(ids: Ints) -> list[tuple[int, int]]:
    """Return the first and last of each range of ids below the largest that are not there."""
    known = np.concatenate([[-1], np.unique(ids[ids >= 0])])
    before = np.flatnonzero(np.diff(known) > 1)
    return [*zip((known[before] + 1).tolist(), (known[before + 1] - 1).tolist(), strict=True)]


def _named(noun: str, gaps: Sequence[tuple[int, int]]) -> str:
    """``12 jobs (0 to 9, 11, 13)``."""
    many = sum(last - first + 1 for first, last in gaps)
    ranges = [
        str(first) if first == last else f"{first} to {last}" for first, last in gaps[:MOST_RANGES]
    ]
    more = [] if len(gaps) <= MOST_RANGES else ["…"]
    return f"{many:,} {noun}{'' if many == 1 else 's'} ({', '.join([*ranges, *more])})"
