"""What a YARN resource manager tells over its REST API: its applications, and how large it is.

It is only asked: ``/ws/v1/cluster/apps`` and ``/metrics``. What it answers is untrusted, as a log
is.
"""

from __future__ import annotations

import re
from math import isfinite, nan
from typing import NamedTuple, TypeVar
from urllib.parse import urlsplit

import msgspec

from iqcar.errors import IqcarError, UsageError
from iqcar.logs.decode.streams import DamageError
from iqcar.logs.find.http_client import TOKEN, told

API = "/ws/v1/cluster"
MAX_APPS_BYTES = 64 << 20
"""Largest list of applications (64 MiB); one takes some 2 kB, and a manager keeps 1,000 to 10,000
that have ended."""
MAX_METRICS_BYTES = 1 << 20
"""Largest answer about the whole cluster (1 MiB)."""
MOST_TEXT = 500
"""Characters kept of any text."""
LARGEST = 1e12
"""A larger number of MB (an exabyte), cores, nodes or ms is none."""
LARGEST_MB_S = 1e18
"""A larger sum of memory × time is none: a petabyte for 30 years."""
LAST_MS = 1e14
"""A time beyond it (the year 5138) is damage, not a time."""
_APP_ID = re.compile(r"application_\d{1,20}_\d{1,12}", re.ASCII)
_Told = TypeVar("_Told")


class YarnApplication(NamedTuple):
    """An application as its resource manager tells of it.

    application_id, name, user, queue, state: empty where it does not tell.
    diagnostics: why it is where it is; empty where nothing is said.
    submitted_ms, launched_ms: since the epoch: when it came, and when the container of its master
        was launched; NaN where that has not been, or is not told.
    until_ms: when it ended; where it has not, when the manager was asked, by its own clock.
    memory_mb_s: Σ over its containers of memory × time so far; NaN where it is not told.
    """

    application_id: str
    name: str
    user: str
    queue: str
    state: str
    diagnostics: str
    submitted_ms: float
    launched_ms: float
    until_ms: float
    memory_mb_s: float

    @property
    def waits(self) -> bool:
        """Whether it waits for the container of its master.

        It stays ACCEPTED while that starts, until its master has registered.
        """
        early = self.state in ("NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED")
        return early and not isfinite(self.launched_ms)


class YarnTold(NamedTuple):
    """What a resource manager told.

    url: of the manager, without a path of its API.
    memory_mb, cores, nodes: of all nodes that run now, for containers; NaN where it is not told.
    """

    url: str
    applications: tuple[YarnApplication, ...]
    memory_mb: float
    cores: float
    nodes: float


class _App(msgspec.Struct, gc=False):
    id: str
    name: str | None = None
    user: str | None = None
    queue: str | None = None
    state: str | None = None
    diagnostics: str | None = None
    submitted: float = msgspec.field(default=nan, name="startedTime")
    launched: float = msgspec.field(default=nan, name="launchTime")
    ended: float = msgspec.field(default=nan, name="finishedTime")
    elapsed: float = msgspec.field(default=nan, name="elapsedTime")
    memory: float = msgspec.field(default=nan, name="memorySeconds")


class _AppList(msgspec.Struct, gc=False):
    app: list[_App] = msgspec.field(default_factory=list)


class _Apps(msgspec.Struct, gc=False):
    apps: _AppList | None


class _Sizes(msgspec.Struct, gc=False):
    memory: float = msgspec.field(default=nan, name="totalMB")
    cores: float = msgspec.field(default=nan, name="totalVirtualCores")
    nodes: float = msgspec.field(default=nan, name="activeNodes")


class _Metrics(msgspec.Struct, gc=False):
    sizes: _Sizes = msgspec.field(name="clusterMetrics")


def ask_resource_manager(url: str) -> YarnTold:
    """Ask a resource manager for its applications, and how large its cluster is.

    Raises UsageError if the URL is none of a resource manager; IqcarError if it cannot be asked,
    refuses, or answers with something else.

    url: such as ``http://host:8088``; what a browser shows behind that is left out.
    """
    root = _root(url)
    apps = _ask(root, "apps", _Apps, MAX_APPS_BYTES).apps
    sizes = _ask(root, "metrics", _Metrics, MAX_METRICS_BYTES).sizes
    found = (_application(one) for one in (apps.app if apps else []))
    return YarnTold(
        root,
        tuple(one for one in found if _APP_ID.fullmatch(one.application_id)),
        *map(_amount, (sizes.memory, sizes.cores, sizes.nodes)),
    )


def _root(url: str) -> str:
    if re.match(r"https?://[^/]", url, re.IGNORECASE) is None:
        raise UsageError("is no address of a resource manager", "--yarn", "give http://HOST:8088")
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises where it is none
    except ValueError:
        raise UsageError("is no address", "--yarn", "give http://HOST:8088") from None
    if "@" in parts.netloc:
        raise UsageError("holds a user or password", "--yarn", f"set {TOKEN}")
    path = re.sub(r"/(?:ws/v1/cluster|cluster)(?:/.*)?$", "", parts.path.rstrip("/"))
    return f"{parts.scheme.lower()}://{parts.netloc}{path}"


def _ask(root: str, what: str, kind: type[_Told], most: int) -> _Told:
    """Ask for one thing, and read it as what it should be."""
    where = f"{root}{API}/{what}"
    try:
        return told(where, most, kind, f"{what} of YARN", "resource manager")
    except DamageError as error:
        advice = "give --yarn the active resource manager's address, or leave it out"
        raise IqcarError(str(error), where, advice) from error


def _application(one: _App) -> YarnApplication:
    submitted, ended = _time(one.submitted), _time(one.ended)
    return YarnApplication(
        application_id=_text(one.id),
        name=_text(one.name),
        user=_text(one.user),
        queue=_text(one.queue),
        state=_text(one.state),
        diagnostics=_text(one.diagnostics),
        submitted_ms=submitted,
        launched_ms=_time(one.launched),
        until_ms=ended if isfinite(ended) else _time(submitted + _amount(one.elapsed)),
        memory_mb_s=_amount(one.memory, LARGEST_MB_S),
    )


def _text(value: str | None) -> str:
    return (value or "")[:MOST_TEXT]


def _time(value: float) -> float:
    """Return a time; 0 is the manager's word for never."""
    return value if 0 < value < LAST_MS else nan


def _amount(value: float, most: float = LARGEST) -> float:
    """Return a number, NaN if out of bounds; an integer may be larger than any float."""
    return float(value) if 0 <= value <= most else nan
