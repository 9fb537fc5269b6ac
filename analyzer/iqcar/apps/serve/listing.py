"""List the applications in the served folders; scan again from time to time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from iqcar.apps.serve.applications import Application, Identity, identity_of, key_of
from iqcar.apps.serve.result_summary import ApplicationLoss, Summary
from iqcar.apps.serve.served_paths import Places
from iqcar.enums import InputStatus
from iqcar.errors import IqcarError
from iqcar.logs.find.locate import NO_LOG, locate
from iqcar.logs.find.log_parts import EventLog, Unreadable, printable
from iqcar.logs.find.remote import is_url
from iqcar.logs.log_summary import Peek, peek
from iqcar.logs.text.redact import redact_text

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
to say at once that a place cannot be read, and no more, however much is there."""

MAX_LOGS = 20_000
"""Logs listed. A History Server's folder holds some thousand; each costs about 2 KB here."""


class Listing:
    """What is known of every application; all methods can be called from any thread.

    Parameters
    ----------
    places : Places
        Where to look.
    found : callable
        Given an application's key and identity, returns the summary of its last analysis with the
        server's settings, and whether that was of this identity; None if there was none.
    lost : callable
        Given an application's key, returns what it lost and to whom; None if nobody knows.

    Attributes
    ----------
    looked : bool
        Whether the places were looked through once.
    problem : str
        Why they could not be looked through the last time; empty if they could.
    left_out : int
        Logs that are not listed, as there are too many.
    without_logs : list of str
        Places without logs.
    """

    def __init__(
        self,
        places: Places,
        found: Callable[[str, Identity], tuple[Summary, bool] | None],
        lost: Callable[[str], ApplicationLoss | None] = lambda _: None,
    ) -> None:
        self._places = places
        self._found, self._lost = found, lost
        self._applications: dict[str, Application] = {}
        self._peeks: dict[str, tuple[Identity, Peek]] = {}
        self._scanning = threading.Lock()
        self._scanned_at = float("-inf")
        self._looked_s = 0.0
        self._stopping = False
        self._found_once = threading.Event()
        self.looked = False
        self.problem = ""
        self.left_out = 0
        self.without_logs: list[str] = []

    def applications(self) -> list[Application]:
        """Return every application known now, in the order of the places; starts no work."""
        return list(self._applications.values())

    def get(self, key: str) -> Application | None:
        """Return an application by its key; None if there is none of that key now."""
        return self._applications.get(key)

    @property
    def unread(self) -> int:
        """Applications whose first and last lines were not read yet.

        At least 1 until the places were looked through once.
        """
        found = sum(one.peek is None for one in self.applications())
        return found if self.looked or self.problem else max(found, 1)

    @property
    def is_due(self) -> bool:
        """Whether it is time to look again, and nobody does."""
        pause = max(RESCAN_S, self._looked_s / LOOKING_SHARE)
        return not self._scanning.locked() and time.monotonic() - self._scanned_at > pause

    def stop(self) -> None:
        """Make a running :meth:`scan` end soon."""
        self._stopping = True

    def check(self) -> None:
        """Begin to look through the places, and wait a while for what is found.

        Raises
        ------
        IqcarError
            If it is clear by then that none of them can be read; a place without logs may get some.
        """
        threading.Thread(target=self.scan, daemon=True).start()
        self._found_once.wait(CHECK_S)
        if self.problem and not self.looked:
            raise IqcarError(self.problem)
        found = self.applications()
        given = {redact_text(printable(path)) for path in self._places.paths}
        if found and all(one.log is None and one.path in given for one in found):
            raise IqcarError(found[0].peek.message if found[0].peek else "", found[0].path)

    def scan(self) -> None:
        """Look through the places, then read heads and tails of what is new or has changed.

        Does nothing while another thread does it. Never raises: what went wrong is in `problem`.
        """
        if not self._scanning.acquire(blocking=False):
            return
        try:
            began = time.monotonic()
            self._keep(locate(self._places.paths, self._places.roots))
            self._looked_s = time.monotonic() - began
            self.problem, self.looked = "", True
            self._found_once.set()
            unread = [one for one in self.applications() if one.peek is None]
            remote = any(is_url(one.path) for one in unread)
            with ThreadPoolExecutor(REMOTE_READERS if remote else 1) as readers:
                for _ in readers.map(self._read, unread):
                    pass
        except IqcarError as error:
            self.problem = redact_text(str(error))
        except Exception as error:
            self.problem = f"the folders could not be looked through: {type(error).__name__}"
        finally:
            self._scanned_at = time.monotonic()
            self._scanning.release()
            self._found_once.set()

    def refresh_results(self, keys: Iterable[str]) -> None:
        """Look up again what analyses of some applications have found."""
        for key in keys:
            if (one := self.get(key)) is not None:
                self._look_up(one)

    def _keep(self, found: list[EventLog | Unreadable]) -> None:
        self.left_out = max(0, len(found) - MAX_LOGS)
        kept: dict[str, Application] = {}
        self.without_logs = [redact_text(each.path) for each in found if _is_empty(each)]
        for each in found[:MAX_LOGS]:
            if _is_empty(each):
                continue
            one = self._application(each)
            if one.key not in kept or kept[one.key].log is None:
                kept[one.key] = one
        self._applications = kept
        self._peeks = {key: known for key, known in self._peeks.items() if key in kept}

    def _application(self, each: EventLog | Unreadable) -> Application:
        key, path = key_of(each.path), redact_text(each.path)
        if not isinstance(each, EventLog):
            failed = Peek(status=InputStatus.FAILED, message=redact_text(each.message))
            return Application(key, path, None, peek=failed)
        identity = identity_of(each)
        one = Application(key, path, each, identity)
        known = self._peeks.get(key)
        if known is not None and known[0] == identity:
            one.peek = known[1]
        self._look_up(one)
        return one

    def _read(self, one: Application) -> None:
        if one.log is None or self._stopping:
            return
        try:
            one.peek = peek(one.log)
        except IqcarError as error:
            one.peek = Peek(status=InputStatus.FAILED, message=redact_text(str(error)))
        except Exception as error:  # one hostile log must not hide all others
            message = f"its first lines could not be read ({type(error).__name__})"
            one.peek = Peek(status=InputStatus.FAILED, message=message)
        self._peeks[one.key] = (one.identity, one.peek)

    def _look_up(self, one: Application) -> None:
        result = self._found(one.key, one.identity)
        one.summary, one.summary_is_current = result if result else (None, False)
        one.loss = self._lost(one.key)


def _is_empty(found: EventLog | Unreadable) -> bool:
    """Tell whether a place is only without logs so far, which is no failure."""
    return isinstance(found, Unreadable) and found.message == NO_LOG
