"""Has processes work: analyses in a bounded queue, and followers of running applications.

Comparisons and answers to what-if questions are analyses, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import logging
import signal
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from iqcar.apps.serve.fork_server import ForkServer, Process, end
from iqcar.apps.serve.worker import Task
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

KEPT_S = 900.0
"""Seconds that the process of a what-if question waits for the next one about the same logs (15
minutes): it has made their model."""

MAX_FOLLOWED = 4
"""Applications followed at once (4): each has a process that reads and diagnoses."""

MAX_FOLLOWERS = 32
"""Pages and programs that look at once (32); each keeps a connection open."""

MAX_LINE_BYTES = 4 << 20
"""Longest line taken from a process (4 MiB): a window, of which usual ones have 10 KB."""

MAX_SAID_BYTES = 64 << 10
"""Bytes kept of what a process says on standard error (64 KiB)."""

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

    digest: name of its result in the cache, and of itself in addresses.
    keys: the applications analysed together.
    phase: what is being done: reading, analysing or writing; empty before and after.
    share: how far the phase is, 0 to 1; only reading is measured.
    message: why it failed.
    wrong: whether it failed because of what was asked.
    """

    digest: str
    keys: tuple[str, ...]
    state: State = State.QUEUED
    phase: str = ""
    share: float = 0.0
    message: str = ""
    wrong: bool = False
    asked_at: float = field(default_factory=time.monotonic)
    began_at: float | None = None
    ended_at: float | None = None

    @property
    def running_ms(self) -> float:
        """Time since a process began with it, in ms."""
        if self.began_at is None:
            return 0.0
        return ((self.ended_at or time.monotonic()) - self.began_at) * 1e3


class Worker:
    """A process of :mod:`iqcar.apps.serve.worker`: a line goes in, lines come out."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._stdin = cast("asyncio.StreamWriter", process.stdin)
        self._stdout = cast("asyncio.StreamReader", process.stdout)
        self._said = asyncio.create_task(_last_line(cast("asyncio.StreamReader", process.stderr)))

    @classmethod
    async def start(cls, forks: ForkServer) -> Worker:
        """Start a process; raises OSError if it cannot be started."""
        return cls(await forks.start("iqcar.apps.serve.worker", MAX_LINE_BYTES, errors=True))

    async def lines(self, task: Task) -> AsyncGenerator[bytes, None]:
        """Hand over a task, and yield what the process tells until it ends."""
        with contextlib.suppress(OSError):  # killed before it read all
            self._stdin.write(task.to_line())
            await self._stdin.drain()
        with contextlib.suppress(ConnectionResetError):
            while line := await self._stdout.readline():
                yield line

    async def end(self) -> tuple[int, str]:
        """End the process; return its exit code, and what it said last on standard error."""
        await end(self._process)
        self._stdin.close()
        return self._process.returncode or 0, await self._said

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._process.returncode is None

    async def ended(self) -> None:
        """Wait for its end."""
        await self._process.wait()


@dataclass
class _KeptProcess:
    """The process of the last question, with the model of its logs, while it waits for the next."""

    model: str
    worker: Worker
    since: float = field(default_factory=time.monotonic)


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
        self._kept: _KeptProcess | None = None
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
        if self._kept is not None and now - self._kept.since > KEPT_S:
            self._drop_kept()

    async def close(self) -> None:
        """Stop everything and wait until the processes are gone."""
        self.closing = True
        running = list(self._running.values())
        for digest in [*self._waiting, *self._running]:
            self.cancel(digest)
        await asyncio.gather(*running, return_exceptions=True)
        if (ending := self._drop_kept()) is not None:
            await ending

    def _begin(self) -> None:
        while self._waiting and len(self._running) < self._processes and not self.closing:
            digest, task = self._waiting.popitem(last=False)
            analysis = self._known[digest]
            analysis.state, analysis.began_at = State.RUNNING, time.monotonic()
            run = asyncio.create_task(self._run(analysis, task))
            self._running[digest] = run
            run.add_done_callback(functools.partial(self._settle, analysis, task))

    async def _run(self, analysis: Analysis, task: Task) -> tuple[State, str]:
        try:
            message = await asyncio.wait_for(self._work(analysis, task), MAX_RUN_S)
            if message:
                return State.FAILED, message
            await asyncio.to_thread(self._cache.finish, Path(task.folder), analysis.digest)
        except asyncio.TimeoutError:
            return State.FAILED, f"stopped: it took longer than {MAX_RUN_S / 60:.0f} min"
        except (OSError, ValueError) as error:
            return State.FAILED, f"its result could not be kept: {error}"
        return State.DONE, ""

    async def _work(self, analysis: Analysis, task: Task) -> str:
        """Have a process do a task; return why it failed, empty if it did not."""
        try:
            worker = self._take_kept(task) or await Worker.start(self._forks)
        except OSError as error:
            return f"its process could not be started: {error}"
        news: dict[str, Any] = {}
        keeps = False
        try:
            async with contextlib.aclosing(worker.lines(task)) as lines:
                async for line in lines:
                    news = json.loads(line)
                    if "phase" in news:
                        analysis.phase, analysis.share = news["phase"], news["share"]
                    elif task.changes:
                        keeps = True
                        break
            if not keeps:
                await worker.ended()
        finally:
            if keeps and not self.closing:
                self._drop_kept()
                self._kept = _KeptProcess(task.model, worker)
                code, said = 0, ""
            else:
                code, said = await worker.end()
        if news.get("done"):
            return ""
        analysis.wrong = bool(news.get("wrong"))
        if "failed" in news:
            return str(news["failed"])
        if said:
            LOGGER.error("analysis %s: %s", analysis.digest, said)
        return _how_it_ended(code)

    def _take_kept(self, task: Task) -> Worker | None:
        """Take the process that has the model for a question, if there is one."""
        kept = self._kept
        if kept is None or not task.changes or kept.model != task.model or not kept.worker.runs:
            return None
        self._kept = None
        return kept.worker

    def _drop_kept(self) -> asyncio.Task[tuple[int, str]] | None:
        kept, self._kept = self._kept, None
        return asyncio.create_task(kept.worker.end()) if kept is not None else None

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


async def _last_line(stream: asyncio.StreamReader) -> str:
    """Return the last line that a process writes: of a traceback, what went wrong."""
    last = b""
    while chunk := await stream.read(MAX_SAID_BYTES):
        last = (last + chunk)[-MAX_SAID_BYTES:]
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


class _Followed:
    """One application that is followed, and who looks."""

    def __init__(self) -> None:
        self.latest = b""
        self.over = False
        self.looking = 0
        self.changed = asyncio.Condition()
        self.task: asyncio.Task[None] | None = None


class Look:
    """The place of one who looks at an application."""

    def __init__(self, one: _Followed, leave: Callable[[], None]) -> None:
        self._one = one
        self._leave: Callable[[], None] | None = leave

    async def windows(self) -> AsyncIterator[bytes]:
        """Yield the latest window of the application as JSON whenever there is a new one.

        Ends with the application. Who reads slowly misses windows, and gets the latest.
        """
        one, seen = self._one, b""
        while True:
            async with one.changed:
                while one.latest == seen and not one.over:
                    await one.changed.wait()
                seen_before, seen = seen, one.latest
            if seen != seen_before:
                yield seen
            elif one.over:
                return

    def close(self) -> None:
        """Give the place back; a second time does nothing."""
        leave, self._leave = self._leave, None
        if leave is not None:
            leave()


class Followers:
    """Follows applications for those who look; to be used from one event loop."""

    def __init__(self, forks: ForkServer) -> None:
        self._forks = forks
        self._followed: dict[str, _Followed] = {}

    @property
    def looking(self) -> int:
        """How many look now."""
        return sum(one.looking for one in self._followed.values())

    def look(self, key: str, task: Task) -> Look:
        """Begin to look at an application; raises FullError if one more cannot.

        The place is taken at once, until the look is closed.
        """
        if self.looking >= MAX_FOLLOWERS:
            raise FullError(f"{MAX_FOLLOWERS} look at running applications already")
        one = self._followed.get(key)
        if one is None:
            if len(self._followed) >= MAX_FOLLOWED:
                raise FullError(f"{MAX_FOLLOWED} running applications are followed already")
            one = self._followed[key] = _Followed()
            one.task = asyncio.create_task(self._follow(key, one, task))
        one.looking += 1
        return Look(one, functools.partial(self._leave, key, one))

    def _leave(self, key: str, one: _Followed) -> None:
        one.looking -= 1
        if one.looking == 0 and one.task is not None:
            one.task.cancel()
            if self._followed.get(key) is one:
                del self._followed[key]

    async def close(self) -> None:
        """End all processes, and tell who looks that nothing more comes."""
        tasks = [one.task for one in self._followed.values() if one.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow(self, key: str, one: _Followed, task: Task) -> None:
        worker = None
        try:
            worker = await Worker.start(self._forks)
            async with contextlib.aclosing(worker.lines(task)) as lines:
                async for line in lines:
                    async with one.changed:
                        one.latest = line.rstrip(b"\n")
                        one.changed.notify_all()
        finally:
            if self._followed.get(key) is one:
                del self._followed[key]
            one.over = True
            await asyncio.shield(_over(worker, one))


async def _over(worker: Worker | None, one: _Followed) -> None:
    """End a process, and wake who waits for its next line."""
    async with one.changed:
        one.changed.notify_all()
    if worker is not None:
        await worker.end()
