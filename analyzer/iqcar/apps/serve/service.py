"""Looks applications up, analyses them, and tells how fresh a result is; for pages and API."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from iqcar.apps.serve.analyses import Analyses, Analysis, Followers, FullError, State
from iqcar.apps.serve.applications import Application, NextLogs
from iqcar.apps.serve.cache import Cache, Identity, Summary, digest_of
from iqcar.apps.serve.fork_server import ForkServer
from iqcar.apps.serve.listing import Listing, Places
from iqcar.apps.serve.worker import Task, comparison_text, settings_text
from iqcar.diagnosis import Settings
from iqcar.errors import UsageError
from iqcar.logs.find.history_server import is_hosted
from iqcar.logs.find.layouts import EventLog, rolling_index

STORE_QUESTIONS = 2
"""Questions that a store answers at once; others wait."""
MAX_TOGETHER = 32
"""Applications analysed together: as many as a person would choose, and a bound on memory."""

HOUSEKEEPING_S = 5.0
"""Seconds between two looks for analyses that nobody waits for."""

LOGGER = logging.getLogger("iqcar.serve")


class GoneError(UsageError):
    """There is no application of that key, or not any more."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """How far an analysis or a comparison is, and its newest result."""

    digest: str
    """Name of the result for the logs as they are now."""
    result: str | None
    """Name of the newest result there is; None if there is none."""
    analysis: Analysis | None
    """The work of that name, if it was asked for."""
    outdated: bool = False
    """Whether the logs have changed since `digest` was their name."""

    @property
    def grown(self) -> bool:
        """Whether a log has changed since the result was made."""
        return self.result is not None and (self.outdated or self.result != self.digest)

    @property
    def state(self) -> State | None:
        """How far it is; None if nobody has asked for it yet."""
        if self.analysis is not None and self.analysis.state is not State.DONE:
            return self.analysis.state
        return State.DONE if self.result == self.digest else None


@dataclass(frozen=True, kw_only=True)
class AnalysisWork(Work):
    """The analysis of an application, or of several together."""

    keys: tuple[str, ...]
    """What was asked about, in order."""
    applications: tuple[Application, ...]
    """Those of these keys; fewer where a log has vanished."""

    @property
    def address(self) -> str:
        """Where its page is."""
        if len(self.keys) == 1:
            return f"/applications/{self.keys[0]}"
        return "/together?" + "&".join(f"app={key}" for key in self.keys)


@dataclass(frozen=True, kw_only=True)
class ComparisonWork(Work):
    """The comparison of two sets of applications, for their logs as they are."""

    before: tuple[Application, ...]
    after: tuple[Application, ...]

    @property
    def query(self) -> str:
        """Its sets as parameters of an address."""
        sides = (("before", self.before), ("after", self.after))
        return "&".join(f"{word}={one.key}" for word, side in sides for one in side)

    @property
    def address(self) -> str:
        """Where its page is."""
        return f"/compared?{self.query}"


class Service:
    """Everything the server holds; to be used from one event loop.

    At most ``processes`` analyses run at once. By itself it analyses what ended at most
    ``new_hours`` ago and logs of at most ``small_mib``, one after the other.
    """

    def __init__(
        self,
        places: Places,
        cache: Cache,
        settings: Settings,
        processes: int,
        new_hours: float | None = None,
        small_mib: float = 0.0,
        store: str = "",
    ) -> None:
        self.cache = cache
        self.store = store
        self.store_turns = asyncio.Semaphore(STORE_QUESTIONS)
        self.settings = {name: str(value) for name, value in asdict(settings).items()}
        self._diagnose = asdict(settings)
        self._settings_text = settings_text(self._diagnose)
        self.listing = Listing(
            places, self._found, lambda key: self.cache.loss(key, self._settings_text)
        )
        self._forks = ForkServer()
        self.analyses = Analyses(cache, self._forks, processes, self._take_note)
        self.followers = Followers(self._forks)
        self.paths = places.paths
        self._places = places
        self._next = NextLogs(new_hours, small_mib)
        self._next_digest = ""

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Do the housekeeping while the server runs; stop all work at its end."""
        housekeeping = asyncio.create_task(self._keep_house())
        loop = asyncio.get_running_loop()

        def looked() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._analyse_next)

        self.listing.on_look = looked
        looked()
        self.listing.look_again()
        try:
            yield
        finally:
            housekeeping.cancel()
            self.listing.stop()
            await self.analyses.close()
            await self.followers.close()
            await self._forks.close()

    def standing(self, keys: Sequence[str], waiting: bool = True) -> AnalysisWork:
        """Look up how far the analysis of applications together is; a key twice counts once.

        ``waiting`` tells whether who asks waits for the analysis, so that it is not abandoned.
        Raises GoneError if one of them is unknown, UsageError if there are none or too many.
        """
        keys = sorted(set(keys))
        if not 1 <= len(keys) <= MAX_TOGETHER:
            raise UsageError(f"1 to {MAX_TOGETHER} applications can be analysed together")
        applications = []
        for key in keys:
            one = self.listing.get(key)
            if one is None:
                raise GoneError("there is no such application (any more)")
            applications.append(one)
        digest = self._digest([(one.key, one.identity) for one in applications])
        if self.cache.summary(digest) is not None:
            result: str | None = digest
        else:
            result = self.cache.latest(keys, self._settings_text)
        analysis = self.analyses.get(digest) if waiting else None
        return AnalysisWork(
            keys=tuple(keys),
            applications=tuple(applications),
            digest=digest,
            result=result,
            analysis=analysis,
        )

    def analyse_all(self, keys: Sequence[str]) -> None:
        """Have applications analysed one after the other, while nobody waits for another."""
        self._next.asked.update(keys)
        self._analyse_next()

    def asked_all(self) -> int:
        """Count the applications that :meth:`analyse_all` has still to come to."""
        return len(self._next.asked)

    def analyse(self, keys: Sequence[str], unasked: bool = False) -> AnalysisWork:
        """Ask for an analysis, unless its result is there already; ``unasked``: if idle.

        Raises FullError if too many wait, UsageError if an application is unknown or has no log
        that can be read.
        """
        standing = self.standing(keys)
        if standing.result == standing.digest:
            return standing
        logs = self._logs(standing.applications)

        def task(folder: Path) -> Task:
            return Task(standing.keys, logs, self._diagnose, str(folder), unasked=unasked)

        self.analyses.start(standing.digest, standing.keys, task)
        return self.standing(keys)

    def compared(self, before: Sequence[str], after: Sequence[str]) -> ComparisonWork:
        """Look up how far the comparison of two sets of applications is.

        Raises GoneError if one of them is unknown, UsageError if a set is empty or too large, or an
        application is in both.
        """
        if set(before) & set(after):
            raise UsageError("an application is before or after, not both")
        sides = [
            tuple(sorted(self.standing(keys, waiting=False).applications, key=_started))
            for keys in (before, after)
        ]
        digest = self._digest(
            [
                (f"{word} {one.key}", one.identity)
                for word, side in zip(("before", "after"), sides, strict=True)
                for one in side
            ]
        )
        result: str | None = digest
        if self.cache.summary(digest) is None:
            keys = [one.key for side in sides for one in side]
            about = comparison_text(self._diagnose, keys, len(sides[0]))
            result = self.cache.latest((), about)
        before_apps, after_apps = sides
        return ComparisonWork(
            before=before_apps,
            after=after_apps,
            digest=digest,
            result=result,
            analysis=self.analyses.get(digest),
        )

    def compare(self, before: Sequence[str], after: Sequence[str]) -> ComparisonWork:
        """Ask for a comparison, unless its result is there already; raises as :meth:`analyse`."""
        compared = self.compared(before, after)
        if compared.result == compared.digest:
            return compared
        every = (*compared.before, *compared.after)
        keys, logs = tuple(one.key for one in every), self._logs(every)

        def task(folder: Path) -> Task:
            return Task(keys, logs, self._diagnose, str(folder), len(compared.before))

        # No keys: its result is about no application alone, nor about all of them together.

        self.analyses.start(compared.digest, (), task)
        return self.compared(before, after)

    def asked(self, keys: Sequence[str], changes: dict[str, Any]) -> Work:
        """Look up how far the answer to a what-if question about applications together is.

        ``changes`` are what :func:`iqcar.replay.whatif.question.parse_request` takes. Raises as
        :meth:`standing`.
        """
        about = self.standing(keys, waiting=False).digest
        digest = digest_of([(about, ())], json.dumps(changes, sort_keys=True))
        result = digest if self.cache.summary(digest) is not None else None
        return Work(digest=digest, result=result, analysis=self.analyses.get(digest))

    def ask(self, keys: Sequence[str], changes: dict[str, Any]) -> Work:
        """Ask a what-if question, unless its answer is there; raises as :meth:`analyse`."""
        asked = self.asked(keys, changes)
        if asked.result is None:
            standing = self.standing(keys, waiting=False)
            logs = self._logs(standing.applications)

            def task(folder: Path) -> Task:
                return Task(
                    logs=logs, settings=self._diagnose, folder=str(folder), changes=changes,
                    model=standing.digest,
                )  # fmt: skip

            self.analyses.start(asked.digest, (), task)
        return self.asked(keys, changes)

    def follow(self, key: str) -> Task:
        """Return the task to follow an application; raises as :meth:`analyse`."""
        (log,) = self._logs(self.standing([key], waiting=False).applications)
        part = log.parts[0]
        folder = part.source.replace(os.sep, "/").rpartition("/")[0]
        path = folder if rolling_index(part.source) is not None else part.source
        if is_hosted(part.source):
            path = log.path
        return Task(settings=self._diagnose, follow=path, within=part.within)

    def _take_note(self, analysis: Analysis) -> None:
        """Take the result of an analysis that has ended into the list."""
        self.listing.refresh_results(analysis.keys)
        asyncio.get_running_loop().call_soon(self._analyse_next)

    def _analyse_next(self) -> None:
        """Analyse what nobody waits for, one at a time and while nobody waits for another."""
        self.analyses.get(self._next_digest)  # so that it is not taken for abandoned
        if self.analyses.closing or self.analyses.waiting or self.analyses.running:
            return
        one = self._next.choose(self.listing.applications(), time.time() * 1e3)
        if one is not None:
            with contextlib.suppress(UsageError, FullError):  # gone again, or a link that strays
                self._next_digest = self.analyse([one.key], unasked=True).digest

    def _logs(self, applications: Sequence[Application]) -> tuple[EventLog, ...]:
        logs = []
        for one in applications:
            if one.log is None:
                raise UsageError(one.peek.message if one.peek else "there is no log", one.name)
            if self._places.strays(one.log):
                raise UsageError("its log is a link that leads out of the served folders", one.name)
            logs.append(one.log)
        return tuple(logs)

    def _digest(self, logs: list[tuple[str, Identity]]) -> str:
        return digest_of(logs, self._settings_text)

    def _found(self, key: str, identity: Identity) -> tuple[Summary, bool] | None:
        digest = self._digest([(key, identity)])
        summary = self.cache.summary(digest)
        if summary is not None:
            return summary, True
        older = self.cache.latest((key,), self._settings_text)
        summary = self.cache.summary(older) if older else None
        return (summary, False) if summary else None

    async def _keep_house(self) -> None:
        while True:
            await asyncio.sleep(HOUSEKEEPING_S)
            if self._next.looks:
                self.listing.look_again()
            self._analyse_next()
            self.analyses.cancel_abandoned()


def _started(one: Application) -> tuple[bool, float, str]:
    return one.start_ms is None, one.start_ms or 0.0, one.key
