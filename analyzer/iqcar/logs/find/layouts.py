"""How Spark and its hosts lay an application's event log out in files: names to logs.

Pure functions of names, so that a local folder, a zip and a bucket are all read alike:

- one file: ``<app>[_<attempt>][.<codec>][.inprogress]``;
- rolling (Spark ≥ 3.0): ``eventlog_v2_<app>[_<attempt>]/`` with ``events_<n>_<app>...`` and an
  empty ``appstatus_<app>...[.inprogress]``; ``events_<n>_<app>....compact`` stands for all files
  up to ``n`` (Spark's ``RollingEventLogFilesFileReader``);
- Databricks: ``eventlog`` is the newest part, ``eventlog-2021-06-14--18-00.gz`` the older ones.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

ROLLING_FOLDER = "eventlog_v2_"
"""How the name of a folder with a rolling log starts."""

IN_PROGRESS = ".inprogress"
COMPACT = ".compact"
MAX_NAMED_PARTS = 5
"""How many missing parts a message names before it only counts them."""

_CODEC = r"(?:\.(?:json|log|txt))?(?:\.(?:zstd|zst|gz|gzip|bz2|lz4|snappy|lzf))?"
_APP = (
    r"(?:application_\d+_\d+|app-\d{14}-\d{4,}|local-\d+|spark-[0-9a-f]{32}|driver-\d{14}-\d{4,})"
)
_SINGLE = re.compile(rf"(?P<app>{_APP})(?:_(?P<attempt>\d+))?{_CODEC}(?:\.inprogress)?$")
_EVENTS = re.compile(r"events_(?P<index>\d{1,9})_(?P<rest>.+)$")
_STATUS = re.compile(r"appstatus_(?P<rest>.+)$")
_DATABRICKS = re.compile(r"eventlog(?:-(?P<date>\d{4}-\d\d-\d\d--\d\d-\d\d(?:-\d\d)?))?(?:\.\w+)?$")
_CHECKSUM = re.compile(r"\.(?:crc|md5|sha1|sha256|sha512)$")


class Layout(NamedTuple):
    """One log in a folder: which files make it up, in the order to read them.

    title: name of the log within its folder; empty where the folder is the log.
    names: files in the order of their events; empty for a rolling folder without events.
    in_progress: whether the names say that the application was still running.
    attempt_id: attempt of the application, where the name tells; else empty.
    problem: a sentence about missing parts; empty if none is missing.
    named_by_spark: whether the name alone tells that this is an event log.
    """

    title: str
    names: tuple[str, ...]
    in_progress: bool = False
    attempt_id: str = ""
    problem: str = ""
    named_by_spark: bool = False


def is_clutter(name: str) -> bool:
    """Tell whether a file is hidden or a checksum, and never an event log by itself."""
    return name.startswith(".") or _CHECKSUM.search(name) is not None


def is_status(name: str) -> bool:
    """Tell whether a file is the empty marker of a rolling log."""
    return _STATUS.match(name) is not None


def rolling_index(path: str) -> int | None:
    """Return the number of a part of a rolling log from its path; None for any other file."""
    match = _EVENTS.match(re.split(r"[/\\]", path)[-1])
    return int(match["index"]) if match else None


def arrange(folder: str, names: Sequence[str]) -> list[Layout]:
    """Group the files of one folder into logs.

    folder: name (not path) of the folder.
    names: names of its files.

    The result is in the order in which each log's first file was named.
    """
    rolling: dict[str, list[str]] = defaultdict(list)
    databricks: list[str] = []
    single: list[str] = []
    order: dict[tuple[str, str], None] = {}
    statuses = [name for name in names if is_status(name)]
    for name in names:
        if is_status(name):
            continue
        if match := _EVENTS.match(name):
            rolling[_application(match["rest"])].append(name)
            order["rolling", _application(match["rest"])] = None
        elif _DATABRICKS.match(name):
            databricks.append(name)
            order["databricks", ""] = None
        else:
            single.append(name)
            order["single", name] = None
    finished = set(single)
    logs = []
    for kind, key in order:
        if kind == "rolling":
            alone = folder.startswith(ROLLING_FOLDER) and len(rolling) == 1
            logs.append(_rolling("" if alone else f"events_*_{key}", key, rolling[key], statuses))
        elif kind == "databricks":
            logs.append(_databricks(databricks))
        elif not (key.endswith(IN_PROGRESS) and key.removesuffix(IN_PROGRESS) in finished):
            # Spark renames the file when the application ends; a copy made while it ran may have
            # stayed behind, and holds nothing that the finished file does not.
            logs.append(_single(key))
    if not rolling and folder.startswith(ROLLING_FOLDER) and not logs:
        logs.append(_without_events(statuses))
    return logs


def _application(rest: str) -> str:
    """Return ``<app>[_<attempt>]`` of a rolling file: Spark leaves no dot in it."""
    return rest.split(".", 1)[0]


def _single(name: str) -> Layout:
    match = _SINGLE.match(name)
    attempt = (match["attempt"] or "") if match else ""
    return Layout(
        name, (name,), name.endswith(IN_PROGRESS), attempt, named_by_spark=match is not None
    )


def _databricks(names: Iterable[str]) -> Layout:
    """Order Databricks' parts by date; the undated one is being written and comes last."""

    def date(name: str) -> tuple[bool, str, str]:
        match = _DATABRICKS.match(name)
        stamp = (match["date"] or "") if match else ""
        return (not stamp, stamp, name)

    ordered = tuple(sorted(names, key=date))
    title = ordered[0] if len(ordered) == 1 else "eventlog*"
    return Layout(title, ordered, named_by_spark=True)


def _rolling(title: str, application: str, names: Sequence[str], statuses: Sequence[str]) -> Layout:
    """Order the files of a rolling log; a compact file replaces all files up to its index."""

    def place(name: str) -> tuple[int, bool, str]:
        match = _EVENTS.match(name)
        return (int(match["index"]) if match else 0, name.endswith(COMPACT), name)

    # The same part twice (a decompressed copy beside the original) counts once.
    ordered = list({place(name)[:2]: name for name in sorted(names, key=place)}.values())
    compact = [number for number, name in enumerate(ordered) if name.endswith(COMPACT)]
    if compact:
        ordered = ordered[compact[-1] :]
    indices = [place(name)[0] for name in ordered]
    match = _SINGLE.match(application)
    own = [name for name in statuses if name.startswith(f"appstatus_{application}")]
    return Layout(
        title,
        tuple(ordered),
        in_progress=bool(own) and all(name.endswith(IN_PROGRESS) for name in own),
        attempt_id=(match["attempt"] or "") if match else "",
        problem=_missing_parts(indices if compact else [0, *indices]),
        named_by_spark=True,
    )


def _without_events(statuses: Sequence[str]) -> Layout:
    running = any(name.endswith(IN_PROGRESS) for name in statuses)
    problem = "the folder of a rolling event log holds no events_<n>_... file"
    return Layout("", (), running, problem=problem, named_by_spark=True)


def _missing_parts(indices: Sequence[int]) -> str:
    """Name the gaps between ascending indices, without counting through them one by one."""
    named: list[str] = []
    missing = 0
    for before, after in pairwise(indices):
        missing += after - before - 1
        gap = range(before + 1, min(after, before + 2 + MAX_NAMED_PARTS))
        named += [f"events_{index}" for index in gap]
    if not missing:
        return ""
    listed = ", ".join(named[:MAX_NAMED_PARTS])
    if missing > MAX_NAMED_PARTS:
        listed += f" and {missing - MAX_NAMED_PARTS} more"
    return f"missing parts of the rolling log: {listed}"


ASSUMED_BYTES = 8_000_000
"""Stored size that a log on a server counts with, which is known when it is downloaded (8 MB)."""


@dataclass(frozen=True)
class LogPart:
    """One file, zip member or remote object of a log.

    path: what to show the user.
    source: how to open it: a local path or a URL.
    size_bytes: stored size, for progress; 0 if unknown.
    member: member of the zip at `source`; empty if `source` is the part itself.
    within: folders, without links in their paths, out of which a local `source` may not lead
        whenever it is opened; anywhere if there are none.
    changed_ms: when it was last written, since the epoch, as its server says; 0 if nobody does.
    """

    path: str
    source: str
    size_bytes: int
    member: str = ""
    within: tuple[str, ...] = ()
    changed_ms: int = 0


class ToldByServer(NamedTuple):
    """What a server says of an application, before its log is opened; untrusted as the log is.

    name, application_id, attempt_id, user, spark_version: empty where it does not say.
    start_ms, end_ms, last_ms: since the epoch: its start, its end, when its log was last written;
        NaN where it does not say.
    completed: whether the application has ended.
    """

    name: str
    application_id: str
    attempt_id: str
    user: str
    spark_version: str
    start_ms: float
    end_ms: float
    last_ms: float
    completed: bool


@dataclass(frozen=True)
class EventLog:
    """The event log of one application attempt: its parts in the order to read them.

    path: what to show the user: the file, the rolling folder, or ``<zip>::<member>``.
    parts: at least one.
    in_progress_hint: whether its name says that the application was still running.
    attempt_id: attempt of the application, where the name tells; else empty.
    problem: a sentence about missing parts; empty if none is missing.
    told: what the server that has it says of the application; None without one.
    """

    path: str
    parts: tuple[LogPart, ...]
    in_progress_hint: bool = False
    attempt_id: str = ""
    problem: str = ""
    told: ToldByServer | None = None

    @property
    def size_bytes(self) -> int:
        """Stored size of all parts."""
        return sum(part.size_bytes for part in self.parts)

    @property
    def work_bytes(self) -> int:
        """Stored size, by which work is shared out; :data:`ASSUMED_BYTES` on a server."""
        return ASSUMED_BYTES if self.told is not None else self.size_bytes


@dataclass(frozen=True)
class Unreadable:
    """A path without a log that could be read.

    path: the path as the user gave it, or what was found below it.
    message: why nothing can be read, in one sentence.
    """

    path: str
    message: str


@dataclass
class Folder:
    """Files that were found side by side, before they are arranged to logs.

    path: what to show the user; empty for the top of a relative glob or zip.
    name: last part of its path, resolved.
    separator: what stands between `path` and a file's name.
    parts: its files by name, in the order to report them.
    named: files that the user named one by one: read even if they do not look like a log.
    """

    path: str
    name: str
    separator: str
    parts: dict[str, LogPart] = field(default_factory=dict)
    named: set[str] = field(default_factory=set)

    def shown(self, title: str) -> str:
        """Return what to show for the log `title` in this folder."""
        title = printable(title)
        if not title or not self.path or self.path.endswith(self.separator):
            return self.path + title
        return self.path + self.separator + title


def printable(path: str | Path) -> str:
    """Return a path as text that can be written anywhere, whatever bytes the name holds."""
    return str(path).encode("utf-8", "replace").decode()
