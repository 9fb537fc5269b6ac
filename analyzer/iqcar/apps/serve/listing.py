"""Lists the applications in the served places; looks again from time to time.

Each place is looked through in a thread of its own, so none waits for another. The threads are
daemons: a place that does not answer keeps no process alive. A link is followed within the places
only.
"""

from __future__ import annotations

import glob
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import cast

from iqcar.apps.serve.applications import Application, identity_of, key_of
from iqcar.apps.serve.cache import ApplicationLoss, Identity, Summary
from iqcar.base.files.derived import is_within
from iqcar.enums import InputStatus
from iqcar.errors import IqcarError
from iqcar.logs.find.layouts import EventLog, Unreadable, printable
from iqcar.logs.find.locate import NO_LOG, absence, local_path, locate
from iqcar.logs.find.storage import is_url
from iqcar.logs.log_summary import Peek, peek
from iqcar.logs.text import redact_text


class Places:
    """What the user gave to be served.

    paths: files, folders, globs, zips or URLs.
    roots: the local ones, links resolved: a link is followed within them only.
    Raises IqcarError if a local path does not exist.
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


RESCAN_S = 5.0
"""Seconds after which a request makes the places be looked through again (5). A look takes 0.2 ms
per local file that Spark named, 1 ms per file that has to be looked into."""

LOOKING_SHARE = 0.1
"""Largest share of time spent looking through the places (a tenth): large folders, and stores that
answer slowly, are looked through less often."""

REMOTE_READERS = 8
"""Heads of remote logs asked for at once (8): a request waits for tens of milliseconds."""

CHECK_S = 2.0
"""Seconds that a server waits for the first look through its places before it answers (2): enough
to say at once that a place cannot be read, and no more, however much is there. A place that takes
longer is told to be unanswered."""

MAX_LOGS = 20_000
"""Logs listed. A History Server's folder holds some thousand; each costs about 2 KB here."""


@dataclass
class _Place:
    """What is looked through at once: a URL, or local paths given one after the other."""

    paths: tuple[str, ...]
    applications: list[Application] = field(default_factory=list)
    without_logs: list[str] = field(default_factory=list)
    left_out: int = 0
    thread: threading.Thread | None = None
    began: float = 0.0
    asked: bool = False
    """Whether it was asked, and has not answered."""
    looked: bool = False
    looked_at: float = float("-inf")
    looked_s: float = 0.0

    @property
    def is_due(self) -> bool:
        """Whether it is time to look again."""
        return time.monotonic() - self.looked_at > max(RESCAN_S, self.looked_s / LOOKING_SHARE)

    @property
    def is_unanswered(self) -> bool:
        """Whether it has not answered for long, or never."""
        return not self.looked or (self.asked and time.monotonic() - self.began > CHECK_S)


class Listing:
    """What is known of every application; all methods can be called from any thread.

    places: where to look.
    found: given an application's key and identity, returns the summary of its last analysis with
    the server's settings, and whether that was of this identity; None if there was none.
    lost: given an application's key, returns what it lost and to whom; None if nobody knows.
    left_out: logs that are not listed, as there are too many.
    on_look: called in another thread whenever a place was looked through.
    """

    def __init__(
        self,
        places: Places,
        found: Callable[[str, Identity], tuple[Summary, bool] | None],
        lost: Callable[[str], ApplicationLoss | None] = lambda _: None,
    ) -> None:
        self._roots = places.roots
        self._places = [
            _Place(paths)
            for remote, several in groupby(places.paths, is_url)
            for paths in ([(one,) for one in several] if remote else [tuple(several)])
        ]
        self._found, self._lost = found, lost
        self._applications: dict[str, Application] = {}
        self._keeping = threading.Lock()
        self._looked_once = threading.Event()
        self._stopping = False
        self.left_out = 0
        self.on_look: Callable[[], None] = lambda: None

    def applications(self) -> list[Application]:
        """Return every application known now, in the order of the places; starts no work."""
        return list(self._applications.values())

    def get(self, key: str) -> Application | None:
        """Return an application by its key; None if there is none of that key now."""
        return self._applications.get(key)

    @property
    def looked(self) -> bool:
        """Whether all places were looked through once."""
        return all(place.looked for place in self._places)

    @property
    def unanswered(self) -> list[str]:
        """Places that have not answered for long: nothing is known of them, or what was before."""
        slow = [place for place in self._places if place.is_unanswered]
        return [redact_text(printable(path)) for place in slow for path in place.paths]

    @property
    def without_logs(self) -> list[str]:
        """Places without logs."""
        return [path for place in self._places for path in place.without_logs]

    @property
    def unread(self) -> int:
        """Applications whose first and last lines were not read yet.

        At least 1 until the places were looked through once.
        """
        found = sum(one.peek is None for one in self.applications())
        return found if self.looked else max(found, 1)

    def stop(self) -> None:
        """Read no further heads of logs."""
        self._stopping = True

    def check(self) -> None:
        """Begin to look through the places, and wait a while for what is found.

        Raises IqcarError if it is clear by then that none of them can be read; a place without logs
        may get some.
        """
        self.look_again()
        self._looked_once.wait(CHECK_S)
        found = self.applications()
        given = {redact_text(printable(path)) for place in self._places for path in place.paths}
        failed = found and all(one.log is None and one.path in given for one in found)
        if self.looked and failed:
            raise IqcarError(found[0].peek.message if found[0].peek else "", found[0].path)

    def look_again(self) -> None:
        """Begin to look through the places for which it is time, and return at once."""
        for place in self._places:
            if place.is_due:
                self._start(place)

    def scan(self) -> None:
        """Look through all places, and read heads and tails of what is new or has changed.

        Never raises: what went wrong with a place stands in its stead.
        """
        for thread in [self._start(place) for place in self._places]:
            thread.join()

    def refresh_results(self, keys: Iterable[str]) -> None:
        """Look up again what analyses of some applications have found."""
        for key in keys:
            if (one := self.get(key)) is not None:
                self._look_up(one)

    def _start(self, place: _Place) -> threading.Thread:
        """Have a place looked through, unless that is under way."""
        with self._keeping:
            if place.thread is None or not place.thread.is_alive():
                place.began, place.asked = time.monotonic(), True
                place.thread = threading.Thread(target=self._look, args=(place,), daemon=True)
                place.thread.start()
            return place.thread

    def _look(self, place: _Place) -> None:
        try:
            self._keep(place, locate(place.paths, self._roots))
        except Exception as error:  # one place must not hide all others
            told = isinstance(error, IqcarError)
            why = str(error) if told else f"it could not be looked through ({type(error).__name__})"
            failed = [Unreadable(path, why.removeprefix(f"{path}: ")) for path in place.paths]
            self._keep(place, failed)
        unread = deque(one for one in place.applications if one.peek is None)
        readers = [
            threading.Thread(target=self._read_all, args=(unread,), daemon=True)
            for _ in range(REMOTE_READERS if is_url(place.paths[0]) else 1)
        ]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        place.looked_at = time.monotonic()
        self.on_look()

    def _keep(self, place: _Place, found: Sequence[EventLog | Unreadable]) -> None:
        """Keep what a place has now, and list all applications anew, in the order of the places."""
        known = {one.key: one for one in place.applications}
        logs = [each for each in found if not _is_empty(each)]
        place.without_logs = [redact_text(each.path) for each in found if _is_empty(each)]
        place.left_out = max(0, len(logs) - MAX_LOGS)
        place.applications = [self._application(each, known) for each in logs[:MAX_LOGS]]
        place.looked_s = time.monotonic() - place.began
        place.asked, place.looked = False, True
        with self._keeping:
            kept: dict[str, Application] = {}
            for one in (one for each in self._places for one in each.applications):
                if one.key not in kept or kept[one.key].log is None:
                    kept[one.key] = one
            self.left_out = sum(each.left_out for each in self._places)
            self.left_out += max(0, len(kept) - MAX_LOGS)
            self._applications = dict(list(kept.items())[:MAX_LOGS])
        if self.looked:
            self._looked_once.set()

    def _application(
        self, each: EventLog | Unreadable, known: dict[str, Application]
    ) -> Application:
        key, path = key_of(each.path), redact_text(each.path)
        if not isinstance(each, EventLog):
            failed = Peek(status=InputStatus.FAILED, message=redact_text(each.message))
            return Application(key, path, None, peek=failed)
        one = Application(key, path, each, identity_of(each))
        if key in known and known[key].identity == one.identity:
            one.peek = known[key].peek
        self._look_up(one)
        return one

    def _read_all(self, unread: deque[Application]) -> None:
        with suppress(IndexError):
            while not self._stopping:
                self._read(unread.popleft())

    def _read(self, one: Application) -> None:
        try:
            one.peek = peek(cast("EventLog", one.log))
        except IqcarError as error:
            one.peek = Peek(status=InputStatus.FAILED, message=redact_text(str(error)))
        except Exception as error:  # one hostile log must not hide all others
            message = f"its first lines could not be read ({type(error).__name__})"
            one.peek = Peek(status=InputStatus.FAILED, message=message)

    def _look_up(self, one: Application) -> None:
        result = self._found(one.key, one.identity)
        one.summary, one.summary_is_current = result if result else (None, False)
        one.loss = self._lost(one.key)


def _is_empty(found: EventLog | Unreadable) -> bool:
    """Tell whether a place is only without logs so far, which is no failure."""
    return isinstance(found, Unreadable) and found.message == NO_LOG
