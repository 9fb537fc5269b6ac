"""Starts the processes of analyses: forked from one that has imported what they need.

Importing takes more than a second, the analysis of a small log less. The fork server is a process
of one thread, started for the first analysis. The server asks it for a process with some JSON and
the ends of one or two connections, which become its standard streams. It answers with lines of
JSON: which process that is, and later how it ended. It ends when the server does. Where forking is
not safe, each process imports for itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import json
import os
import signal
import socket
import sys
import traceback
from collections.abc import Awaitable, Callable, Sequence
from importlib import import_module
from typing import NoReturn, Protocol

from iqcar.base.workers import command

FORKS = sys.platform == "linux"
"""Whether processes are forked. Libraries of macOS do not bear it; Windows cannot."""

_MESSAGE_BYTES = 4096
"""More than a request, or than what is read of the answers at once."""
_ENDED_UNSEEN = -signal.SIGKILL
"""Exit code of a process whose end the fork server could not tell, as it was killed itself."""


class Process(Protocol):
    """A process and its streams; :class:`asyncio.subprocess.Process` is one."""

    stdin: asyncio.StreamWriter | None
    stdout: asyncio.StreamReader | None
    stderr: asyncio.StreamReader | None

    @property
    def returncode(self) -> int | None:
        """Exit code, negative for a signal; None while it runs."""

    def kill(self) -> None:
        """End it at once; raises ProcessLookupError if it has ended."""

    async def wait(self) -> int:
        """Wait for its end; return the exit code."""


async def end(process: Process) -> None:
    """Kill a process that still runs, and wait for its end."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    await process.wait()


class _Forked:
    """A process that the fork server forked."""

    def __init__(
        self,
        pid: int,
        end: asyncio.Future[int],
        talk: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        said: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None,
    ) -> None:
        self._pid, self._end = pid, end
        self.stdout: asyncio.StreamReader | None
        self.stdin: asyncio.StreamWriter | None
        self.stdout, self.stdin = talk
        self.stderr = said[0] if said else None
        self._said = said  # the connection closes when nobody holds both its ends

    @property
    def returncode(self) -> int | None:
        return self._end.result() if self._end.done() else None

    def kill(self) -> None:
        if self._end.done():
            raise ProcessLookupError
        os.kill(self._pid, signal.SIGKILL)

    async def wait(self) -> int:
        return await asyncio.shield(self._end)


class ForkServer:
    """Starts processes; to be used from one event loop."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._channel: socket.socket | None = None
        self._listening: asyncio.Task[None] | None = None
        self._requests = 0
        self._asked: dict[int, asyncio.Future[tuple[int, asyncio.Future[int]]]] = {}
        self._ends: dict[int, asyncio.Future[int]] = {}

    async def start(self, module: str, limit: int, errors: bool = False) -> Process:
        """Start a process that runs a module's ``main``, in a session of its own.

        A terminal's Ctrl-C is for the server, which ends its processes itself.

        module: where ``main`` is. A ``preload`` beside it is called once, before the fork: it
        imports what ``main`` will need.
        limit: bytes of the longest line that it may write.
        errors: whether its standard error is read; else it is thrown away.
        Raises OSError if it cannot be started.
        """
        if not FORKS:
            return await _execute(module, limit, errors)
        async with self._turn:
            if self._channel is None:
                await self.close()
                self._channel, kill = await launch()
                self._listening = asyncio.create_task(self._listen(self._channel, kill))
        return await self._fork(module, limit, errors)

    async def close(self) -> None:
        """End the fork server; what it forked ends when its standard input does."""
        if self._listening is not None:
            if self._channel is not None:
                self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)

    async def _fork(self, module: str, limit: int, errors: bool) -> Process:
        if self._channel is None:
            raise OSError("the fork server has ended")
        self._requests += 1
        number = self._requests
        started = self._asked[number] = asyncio.get_running_loop().create_future()
        pairs = [socket.socketpair() for _ in range(1 + errors)]
        try:
            asked = json.dumps([number, module]).encode()
            socket.send_fds(self._channel, [asked], [theirs.fileno() for _, theirs in pairs])
            pid, end = await started
        except BaseException:
            for ours, _ in pairs:
                ours.close()
            raise
        finally:
            del self._asked[number]
            for _, theirs in pairs:
                theirs.close()
        talk, *said = [await asyncio.open_connection(sock=ours, limit=limit) for ours, _ in pairs]
        return _Forked(pid, end, talk, said[0] if said else None)

    async def _listen(self, channel: socket.socket, kill: Callable[[], Awaitable[object]]) -> None:
        """Take note of what the fork server says, until it ends."""
        loop = asyncio.get_running_loop()
        channel.setblocking(False)
        rest = b""
        try:
            while more := await loop.sock_recv(channel, _MESSAGE_BYTES):
                *lines, rest = (rest + more).split(b"\n")
                for line in lines:
                    self._take_note(**json.loads(line))
        finally:
            channel.close()
            self._channel = None
            for started in self._asked.values():
                if not started.done():
                    started.set_exception(OSError("the fork server has ended"))
            for pid in list(self._ends):
                self._take_note(pid, code=_ENDED_UNSEEN)
            await kill()

    def _take_note(self, pid: int, number: int | None = None, code: int | None = None) -> None:
        """Take note that a process was started or has ended."""
        if code is not None:
            if (end := self._ends.pop(pid, None)) is not None:  # a library may start processes, too
                end.set_result(code)
            return
        end = self._ends[pid] = asyncio.get_running_loop().create_future()
        started = self._asked.get(number or 0)
        if started is not None and not started.done():
            started.set_result((pid, end))


async def launch() -> tuple[socket.socket, Callable[[], Awaitable[object]]]:
    """Start a fork server; return the channel to it, and what ends it."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = await asyncio.create_subprocess_exec(
            *command(__name__),
            stdin=theirs.fileno(),
            stdout=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )

    async def kill() -> None:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()

    return ours, kill


async def _execute(module: str, limit: int, errors: bool) -> Process:
    return await asyncio.create_subprocess_exec(
        *command(module),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE if errors else asyncio.subprocess.DEVNULL,
        limit=limit,
        start_new_session=True,
    )


def main() -> None:
    """Fork a process for each request, from what is imported by then, until the server ends."""
    channel = socket.socket(fileno=os.dup(0))
    signal.signal(signal.SIGCHLD, lambda *_: _tell_ends(channel))
    while True:
        asked, ends, _, _ = socket.recv_fds(channel, _MESSAGE_BYTES, 2)
        if not asked:
            os._exit(0)
        number, module = json.loads(asked)
        prepare(module)
        # That it has ended is told after that it has started.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        pid = os.fork()
        if pid == 0:
            channel.close()
            _become(module, ends)
        for end in ends:
            os.close(end)
        _tell(channel, pid=pid, number=number)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})


@functools.cache
def prepare(module: str) -> None:
    """Import a module, and what it says that its ``main`` will need."""
    getattr(import_module(module), "preload", lambda: None)()
    gc.freeze()  # what is shared with the processes stays so


def _become(module: str, ends: Sequence[int]) -> NoReturn:
    """Run a module's ``main`` with one end as standard input and output, another for errors."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        os.setsid()
        talk, said = ends[0], ends[1] if len(ends) > 1 else os.open(os.devnull, os.O_WRONLY)
        for end, number in ((talk, 0), (talk, 1), (said, 2)):
            os.dup2(end, number)
        os.close(talk)
        os.close(said)
        sys.stdin = os.fdopen(0, closefd=False)
        sys.stdout = os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", 1, errors="replace", closefd=False)
        import_module(module).main()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _tell_ends(channel: socket.socket) -> None:
    """Tell of all processes that have ended."""
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            _tell(channel, pid=ended[0], code=os.waitstatus_to_exitcode(ended[1]))


def _tell(channel: socket.socket, **news: int) -> None:
    try:
        channel.sendall(json.dumps(news).encode() + b"\n")
    except OSError:
        os._exit(1)  # the server has gone
