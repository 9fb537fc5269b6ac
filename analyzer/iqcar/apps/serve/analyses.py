"""Runs analyses on demand: a bounded queue, a few processes at a time, progress for who waits."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from iqcar.apps.serve.analysis_process import Task
from iqcar.apps.serve.fork_server import ForkServer, end
from iqcar.base.units import printable
from iqcar.enums import Kind
from iqcar.errors import IqcarError, is_debugging

if TYPE_CHECKING:
    from iqcar.apps.serve.cache import Cache

MAX_QUEUED = 32
"""Analyses that may wait (32): more is somebody's script, which can ask again later."""

MAX_ENDED = 500
"""Ended analyses remembered, to tell how they ended (500)."""

MAX_RUN_S = 3600.0
"""Seconds an analysis may take (an hour): logs of 10 GB take minutes."""

ABANDONED_S = 120.0
"""Seconds without anybody asking after which an analysis is stopped (2 minutes). A page asks every
second; browsers slow pages in the background down to once a minute."""

MAX_LINE_BYTES = 64 << 10
"""Longest line taken from a process (64 KiB)."""

LOGGER = logging.getLogger("iqcar.serve")


class State(Kind):
    """How far an analysis is."""

    QUEUED = "queued", "It waits until a process is free."
    RUNNING = "running", "A process is at work on it."
    DONE = "done", "Its result is there."
    FAILED = "failed", "It ended without a result; the message says why."
    CANCELLED = "cancelled", "It was stopped, by somebody or because nobody waited for it."


ENDED = frozenset((State.DONE, State.FAILED, State.CANCELLED))


class FullError(IqcarError):
    """So many analyses wait that no more is taken."""


@dataclass
class Analysis:
    """One analysis, from being asked for to its end.

    Attributes
    ----------
    digest : str
        Name of its result in the cache, and of itself in addresses.
    keys : tuple of str
        The applications analysed together.
    phase : str
        What is being done: reading, analysing or writing; empty before and after.
    share : float
        How far the phase is, 0 to 1; only reading is measured.
    message : str
        Why it failed.
    """

    digest: str
    keys: tuple[str, ...]
    state: State = State.QUEUED
    phase: str = ""
    share: float = 0.0
    message: str = ""
    asked_at: float = field(default_factory=time.monotonic)
    began_at: float | None = None
    ended_at: float | None = None

    @property
    def running_ms(self) -> float:
        """Time since a process began with it, in ms."""
        if self.began_at is None:
            return 0.0
        return ((self.ended_at or time.monotonic()) - self.began_at) * 1e3


class Analyses:
    """Runs analyses; to be used from one event loop.

    At most ``processes`` run at once, which bounds memory; ``ended`` is called with each after its
    end, results go to the cache.
    """

    def __init__(
        self,
        cache: Cache,
        forks: ForkServer,
        processes: int,
        ended: Callable[[Analysis], None],
    ) -> None:
        self._cache = cache
        self._forks = forks
        self._processes = processes
        self._take_note = ended
        self._known: OrderedDict[str, Analysis] = OrderedDict()
        self._waiting: OrderedDict[str, Task] = OrderedDict()
        self._running: dict[str, asyncio.Task[tuple[State, str]]] = {}
        self.closing = False

    @property
    def waiting(self) -> int:
        """How many wait until a process is free."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        """How many run."""
        return len(self._running)

    def start(self, digest: str, keys: tuple[str, ...], task: Callable[[Path], Task]) -> Analysis:
        """Ask for an analysis, or join one under way; raises FullError if too many wait."""
        known = self._known.get(digest)
        if known is not None and known.state not in ENDED:
            return known
        if len(self._waiting) >= MAX_QUEUED:
            raise FullError(f"{MAX_QUEUED} analyses wait already", "", "ask again later")
        analysis = Analysis(digest, keys)
        self._known[digest] = analysis
        self._known.move_to_end(digest)
        self._waiting[digest] = task(self._cache.begin())
        self._forget_oldest()
        self._begin()
        return analysis

    def get(self, digest: str) -> Analysis | None:
        """Return an analysis that was asked for, None if it is not known; counts as waiting."""
        analysis = self._known.get(digest)
        if analysis is not None:
            analysis.asked_at = time.monotonic()
        return analysis

    def alone(self) -> dict[str, Analysis]:
        """Return the newest analysis of each application alone, by its key."""
        return {one.keys[0]: one for one in self._known.values() if len(one.keys) == 1}

    def place(self, digest: str) -> int:
        """Return how many analyses wait before this one; 0 for one that does not wait."""
        waiting = list(self._waiting)
        return waiting.index(digest) if digest in self._waiting else 0

    def cancel(self, digest: str) -> None:
        """Stop an analysis that waits or runs."""
        if (task := self._waiting.pop(digest, None)) is not None:
            self._cache.discard(Path(task.folder))
            self._end(self._known[digest], State.CANCELLED)
        elif (running := self._running.get(digest)) is not None:
            running.cancel()

    def cancel_abandoned(self) -> None:
        """Stop what nobody has asked about for a while."""
        now = time.monotonic()
        for digest in [*self._waiting, *self._running]:
            if now - self._known[digest].asked_at > ABANDONED_S:
                LOGGER.info("nobody waits for analysis %s any more: stopped", digest)
                self.cancel(digest)

    async def close(self) -> None:
        """Stop everything and wait until the processes are gone."""
        self.closing = True
        running = list(self._running.values())
        for digest in [*self._waiting, *self._running]:
            self.cancel(digest)
        await asyncio.gather(*running, return_exceptions=True)

    def _begin(self) -> None:
        while self._waiting and len(self._running) < self._processes and not self.closing:
            digest, task = self._waiting.popitem(last=False)
            analysis = self._known[digest]
            analysis.state, analysis.began_at = State.RUNNING, time.monotonic()
            run = asyncio.create_task(self._run(analysis, task))
            self._running[digest] = run
            run.add_done_callback(partial(self._settle, analysis, task))

    async def _run(self, analysis: Analysis, task: Task) -> tuple[State, str]:
        try:
            message = await asyncio.wait_for(_analyse(self._forks, analysis, task), MAX_RUN_S)
            if message:
                return State.FAILED, message
            await asyncio.to_thread(self._cache.finish, Path(task.folder), analysis.digest)
        except asyncio.TimeoutError:
            return State.FAILED, f"stopped: it took longer than {MAX_RUN_S / 60:.0f} min"
        except (OSError, ValueError) as error:
            return State.FAILED, f"its result could not be kept: {error}"
        return State.DONE, ""

    def _settle(self, analysis: Analysis, task: Task, run: asyncio.Task[tuple[State, str]]) -> None:
        """Take note of how a run ended, also of one that was stopped before its first step."""
        self._cache.discard(Path(task.folder))
        del self._running[analysis.digest]
        if run.cancelled():
            self._end(analysis, State.CANCELLED)
        elif (error := run.exception()) is not None:
            LOGGER.error("analysis %s: %r", analysis.digest, error)
            self._end(analysis, State.FAILED, "it could not be run; this is a bug of iqcar")
        else:
            self._end(analysis, *run.result())
        self._begin()

    def _end(self, analysis: Analysis, state: State, message: str = "") -> None:
        analysis.state, analysis.message = state, printable(message)
        analysis.phase, analysis.share = "", float(state is State.DONE)
        analysis.ended_at = time.monotonic()
        words = "analysis %s %s after %.1f s%s"
        said = f": {analysis.message}" if message else ""
        LOGGER.info(words, analysis.digest, state, analysis.running_ms / 1e3, said)
        self._take_note(analysis)

    def _forget_oldest(self) -> None:
        for digest in list(self._known):
            if len(self._known) <= MAX_ENDED:
                return
            if self._known[digest].state in ENDED:
                del self._known[digest]


async def _analyse(forks: ForkServer, analysis: Analysis, task: Task) -> str:
    """Run a process and follow it; return why it failed, empty if it did not."""
    try:
        process = await forks.start(
            "iqcar.apps.serve.analysis_process", MAX_LINE_BYTES, errors=True
        )
    except OSError as error:
        return f"its process could not be started: {error}"
    stdin = cast("asyncio.StreamWriter", process.stdin)
    stdout = cast("asyncio.StreamReader", process.stdout)
    said = asyncio.create_task(_last_line(cast("asyncio.StreamReader", process.stderr)))
    news: dict[str, Any] = {}
    try:
        with contextlib.suppress(OSError):
            stdin.write(task.to_line())
            await stdin.drain()
        with contextlib.suppress(ConnectionResetError):  # killed before it read all
            while line := await stdout.readline():
                news = json.loads(line)
                if "phase" in news:
                    analysis.phase, analysis.share = news["phase"], news["share"]
        await process.wait()
    finally:
        await end(process)
        stdin.close()
        last = await said
    if news.get("done"):
        return ""
    if "failed" in news:
        return str(news["failed"])
    if last:
        LOGGER.error("analysis %s: %s", analysis.digest, last)
    return _how_it_ended(process.returncode or 0)


async def _last_line(stream: asyncio.StreamReader) -> str:
    """Return the last line that a process writes: of a traceback, what went wrong."""
    last = b""
    while chunk := await stream.read(MAX_LINE_BYTES):
        last = (last + chunk)[-MAX_LINE_BYTES:]
    lines = last.decode("utf-8", "replace").strip().splitlines()
    if is_debugging():
        for line in lines:
            LOGGER.error("%s", printable(line))
    return printable(lines[-1])[:1000] if lines else ""


def _how_it_ended(code: int) -> str:
    if code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        why = "; was there too little memory?" if -code == signal.SIGKILL else ""
        return f"the process analysing it was ended from outside ({name}){why}"
    return f"the process analysing it ended with code {code}; this is a bug of iqcar"
