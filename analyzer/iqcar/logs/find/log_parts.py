"""Where logs are stored, in plain data: what ``locate`` finds and ``lines`` reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

ASSUMED_BYTES = 8_000_000
"""Stored size that a log on a server counts with, which is known when it is downloaded (8 MB)."""


@dataclass(frozen=True)
class LogPart:
    """One file, zip member or remote object of a log.

    Attributes
    ----------
    path : what to show the user.
    source : how to open it: a local path or a URL.
    size_bytes : stored size, for progress; 0 if unknown.
    member : member of the zip at `source`; empty if `source` is the part itself.
    within : folders, without links in their paths, out of which a local `source` may not lead
        whenever it is opened; anywhere if there are none.
    changed_ms : when it was last written, since the epoch, as its server says; 0 if nobody does.
    """

    path: str
    source: str
    size_bytes: int
    member: str = ""
    within: tuple[str, ...] = ()
    changed_ms: int = 0


class ToldByServer(NamedTuple):
    """What a server says of an application, before its log is opened; untrusted as the log is.

    Attributes
    ----------
    name, application_id, attempt_id, user, spark_version : empty where it does not say.
    start_ms, end_ms, last_ms : since the epoch: its start, its end, when its log was last written;
        NaN where it does not say.
    completed : whether the application has ended.
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

    Attributes
    ----------
    path : what to show the user: the file, the rolling folder, or ``<zip>::<member>``.
    parts : at least one.
    in_progress_hint : whether its name says that the application was still running.
    attempt_id : attempt of the application, where the name tells; else empty.
    problem : a sentence about missing parts; empty if none is missing.
    told : what the server that has it says of the application; None without one.
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

    Attributes
    ----------
    path : the path as the user gave it, or what was found below it.
    message : why nothing can be read, in one sentence.
    """

    path: str
    message: str


@dataclass
class Folder:
    """Files that were found side by side, before they are arranged to logs.

    Attributes
    ----------
    path : what to show the user; empty for the top of a relative glob or zip.
    name : last part of its path, resolved.
    separator : what stands between `path` and a file's name.
    parts : its files by name, in the order to report them.
    named : files that the user named one by one: read even if they do not look like a log.
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
