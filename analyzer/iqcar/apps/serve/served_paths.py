"""Checks that a file is within the served folders wherever links lead."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path

from iqcar.base.files.derived import is_within
from iqcar.errors import IqcarError
from iqcar.logs.find.layouts import EventLog
from iqcar.logs.find.locate import absence, local_path
from iqcar.logs.find.storage import is_url


class Places:
    """What the user gave to be served.

    Parameters
    ----------
    paths : sequence of str
        Files, folders, globs, zips or URLs.

    Attributes
    ----------
    roots : tuple of str
        The local ones, links resolved: a link is followed within them only.

    Raises
    ------
    IqcarError
        If a local path does not exist.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = tuple(paths)
        self.roots = tuple(str(_root(path)) for path in paths if not is_url(path))

    def holds(self, source: str) -> bool:
        """Tell whether a file that was found lies, links followed, in a place that was given.

        Who may write into a folder of logs may lay a link there to any file that the server can
        read: such a link is not followed out of the places given.
        """
        return is_url(source) or is_within(source, self.roots)

    def strays(self, log: EventLog) -> bool:
        """Tell whether a part of a log is there, but lies outside."""
        return any(
            not is_url(part.source) and Path(part.source).exists() and not self.holds(part.source)
            for part in log.parts
        )


def _root(path: str) -> Path:
    """Return the folder or file given; of a glob, the folder above its first wildcard."""
    local = local_path(path)
    if local.exists():
        return local.resolve()
    if not glob.has_magic(str(local)):
        raise IqcarError(
            absence(local),
            path,
            "give the file or folder that Spark writes event logs to (spark.eventLog.dir)",
        )
    while glob.has_magic(str(local)):
        local = local.parent
    return local.resolve()
