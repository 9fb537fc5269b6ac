"""Reads and makes the names of a store's files.

``TABLE/cluster=NAME/day=YYYY-MM-DD/BATCH.parquet``, or ``day=YYYY-MM`` for a past month.
"""

from __future__ import annotations

import re
import time
import uuid
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

if TYPE_CHECKING:
    import pandas as pd

NO_DAY = "unknown"
"""Day of applications whose start is not known."""

BATCH = r"\d{14}-[0-9a-f]{8}"
"""How an addition or merger is named, as a regular expression."""

_FILE = re.compile(
    rf"cluster=([^/]*)/day=([12]\d{{3}}-(?:0[1-9]|1[0-2])(?:-\d\d)?|{NO_DAY})/({BATCH})\.parquet$"
)

_UNFINISHED = re.compile(
    rf"/\.(?:{BATCH}_by_)?(\d{{14}})-[0-9a-f]{{8}}(?:\.parquet)?\.[0-9a-f]{{8}}$"
)

CLOCKS_APART_MS = 86_400_000
"""How far ahead the clock of another writer may be (a day); a file of a later time is not ours."""

LATER = "its name is of a later day than today"

Part = tuple[str, str, str]
"""Cluster, month and name of the files with what one addition or merger wrote of that month."""


@dataclass(frozen=True)
class StoredFile:
    """One file of a table: where it is, what its path says, and its size in bytes."""

    path: str
    table: str
    cluster: str
    day: str
    batch: str
    size: int

    @property
    def part(self) -> Part:
        """Which rows it holds."""
        return part_of(self.cluster, self.day, self.batch)


def part_of(cluster: str, day: str, batch: str) -> Part:
    """Return which files hold a row: by its cluster, day (or month) and ``batch``."""
    return cluster, day[: len("2026-11")], batch.rpartition("+")[2]


def cluster_folder(cluster: str) -> str:
    """Return the name of the folder with the files of a cluster."""
    return f"cluster={quote(cluster, safe='')}"


def named_file(path: str, table: str, size: int) -> StoredFile | str:
    """Return what the path of a table's file says, or why iqcar cannot have named it so."""
    name = _FILE.search(path)
    if name is None:
        return "it is not named as iqcar names its files"
    if name[3] > f"{time.time_ns() // 1_000_000 + CLOCKS_APART_MS:014d}":
        return LATER
    return StoredFile(
        path=path, table=table, cluster=unquote(name[1]), day=name[2], batch=name[3], size=size
    )


def unfinished_since(path: str) -> float | None:
    """Return since when a file is being written, in s, that is renamed when it is whole.

    A writer that was killed leaves it. None for any other file.
    """
    name = _UNFINISHED.search(path)
    return int(name[1]) / 1e3 if name is not None else None


def in_range(day: str, since: str, until: str) -> bool:
    """Tell whether a day, or some day of a month, lies in a range that includes its ends."""
    return day == NO_DAY or (since or "0")[: len(day)] <= day <= ((until or "9")[: len(day)])


def folder_of(start_ms: pd.Series) -> pd.Series:
    """Return the day in UTC that each time lies in, as text; in a past month, only the month."""
    import pandas as pd

    days = pd.to_datetime(start_ms, unit="ms", utc=True).dt.strftime("%Y-%m-%d").fillna(NO_DAY)
    months = days.str[: len("2026-11")]
    return days.where(months == this_month(), months)


def this_month() -> str:
    """Return the current month in UTC."""
    return time.strftime("%Y-%m", time.gmtime())


def new_batch(after: str = "") -> str:
    """Return a name for an addition or merger; it sorts after earlier ones, and after a given one.

    Clocks of two writers may be apart, and two names may be made in one millisecond.
    """
    now = time.time_ns() // 1_000_000
    if after:
        now = max(now, int(after.partition("-")[0]) + 1)
    return f"{now:014d}-{uuid.uuid4().hex[:8]}"


UNKNOWN = "unknown"
LONGEST_FOLDER = 120
"""Bytes of a cluster's name in a path; most file systems allow 255."""
_ADDRESS = re.compile(r"(?:k8s://(?:https?://)?|[a-z]+://)([^/?#]*)")


def cluster_of(master: str) -> str:
    """Return the cluster that a master belongs to.

    Parameters
    ----------
    master : ``local[4]``, ``yarn``, ``spark://host:7077``, ``k8s://https://host:443``; may be
        empty.

    Returns ``local``, ``yarn``, or the address without user and password.
    """
    if master.startswith("local"):
        return "local"
    address = _ADDRESS.match(master)
    if address:
        return address[1].rpartition("@")[2] or UNKNOWN
    return master or UNKNOWN


def bounded_cluster(name: str) -> str:
    """Return a cluster's name as it is kept: a long one is cut, and told apart by its hash."""
    whole = name.encode("utf-8", "replace").decode()
    if len(quote(whole, safe="")) <= LONGEST_FOLDER:
        return whole
    kept = whole
    while len(quote(kept, safe="")) > LONGEST_FOLDER - 13:
        kept = kept[: max(len(kept) - 8, 0)]
    return f"{kept}~{sha256(whole.encode()).hexdigest()[:12]}"
