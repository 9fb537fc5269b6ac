"""Finding the event logs in what a user names: files, folders, globs, zips and URLs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from iqcar.logs.find.layouts import Layout, arrange, is_status
from iqcar.logs.find.log_parts import EventLog, Folder, LogPart, Unreadable
from iqcar.logs.find.search import Search
from iqcar.logs.find.storage import looks_like_log

NO_LOG = (
    "no event log here: no file is named like one or starts with Spark events; "
    "give the file or folder that Spark writes event logs to (spark.eventLog.dir)"
)
"""What is said of a folder, pattern or zip without event logs."""

__all__ = ["EventLog", "LogPart", "Unreadable", "locate"]


def locate(paths: Sequence[str | Path], within: Sequence[str] = ()) -> list[EventLog | Unreadable]:
    """Find every event log in the given places.

    A file that the user names is read whatever it looks like. In a folder, a glob or a zip, files
    are taken that Spark names like event logs or that start with Spark events; all others are
    passed over. A log that is reached twice is read once.

    Parameters
    ----------
    paths : files, folders (searched to a depth of :data:`~iqcar.logs.find.folders.MAX_DEPTH`),
        globs, rolling folders, zips, or URLs.
    within : folders, without links in their paths, out of which no link is followed, now or when a
        log is read; links are followed anywhere by default.

    The result is in the order of `paths`. A path without a log is an Unreadable; nothing else is
    raised.

    Raises IqcarError if a URL needs a package that is not installed.
    """
    search = Search(tuple(within))
    finds = [search.look(str(path)) for path in paths]
    arranged: dict[str, list[EventLog | Unreadable]] = {}
    result: list[EventLog | Unreadable] = []
    for find in finds:
        result += find.failures
        anything = bool(find.failures)
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
