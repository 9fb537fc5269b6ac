"""Follows running applications for those who look: one process for each."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Callable

import msgspec

from iqcar.apps.serve.analyses import FullError
from iqcar.apps.serve.fork_server import ForkServer, Process, end

MAX_FOLLOWED = 4
"""Applications followed at once (4): each has a process that reads and diagnoses."""

MAX_FOLLOWERS = 32
"""Pages and programs that look at once (32); each keeps a connection open."""

MAX_LINE_BYTES = 4 << 20
"""Bytes of one window (4 MiB); usual ones have 10 KB."""

WINDOW_MS, EVERY_MS = 60_000.0, 2_000.0
"""As `iqcar live` has them by default."""

END_S = 5.0
"""Seconds in which a process that is told to end must have ended, else it is killed (5)."""


class FollowRequest(msgspec.Struct):
    """What to follow: a log's file, or the folder of a rolling one.

    No link is followed out of the folders `within`; `settings` are as of every analysis.
    """

    path: str
    within: list[str]
    settings: dict[str, str | int | bool]
    window_ms: float
    every_ms: float


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

    def look(self, key: str, wanted: FollowRequest) -> Look:
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
            one.task = asyncio.create_task(self._follow(key, one, wanted))
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

    async def _follow(self, key: str, one: _Followed, wanted: FollowRequest) -> None:
        process = None
        try:
            process = await self._forks.start("iqcar.apps.serve.live_process", MAX_LINE_BYTES)
            if process.stdin is None or process.stdout is None:
                return
            process.stdin.write(msgspec.json.encode(wanted) + b"\n")
            with contextlib.suppress(ConnectionError):  # killed before it read all
                await process.stdin.drain()
                while line := await process.stdout.readline():
                    async with one.changed:
                        one.latest = line.rstrip(b"\n")
                        one.changed.notify_all()
        finally:
            if self._followed.get(key) is one:
                del self._followed[key]
            one.over = True
            await asyncio.shield(_ended(process, one))


async def _ended(process: Process | None, one: _Followed) -> None:
    """End a process, and wake who waits for its next line."""
    async with one.changed:
        one.changed.notify_all()
    if process is not None:
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(end(process), END_S)
