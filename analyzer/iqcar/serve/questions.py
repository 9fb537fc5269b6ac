"""What-if questions asked live: one process per model, kept for further questions."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from iqcar.formatting import printable
from iqcar.serve.analyses import ABANDONED_S, MAX_LINE_BYTES, FullError, State

if TYPE_CHECKING:
    from iqcar.serve.analysis_process import Task
    from iqcar.serve.fork_server import ForkServer, Process

MOST_MODELS = 2
"""Models kept at a time (2): each is a process that holds a log's tables in memory."""

KEPT_S = 900.0
"""Seconds that a model is kept after the last question (15 minutes)."""

MOST_ASKED = 32
"""Questions about one model that are remembered with their answers (32)."""

MAX_ANSWER_S = 3600.0
"""Seconds that making a model or answering may take (an hour)."""

LOGGER = logging.getLogger("iqcar.serve")


@dataclass
class Asked:
    """One question, from being asked to its answer.

    Attributes
    ----------
    state : State
        Running, done or failed.
    message : str
        Why it failed.
    wrong : bool
        Whether it failed because of what was asked.
    json, html : bytes and str
        The answer as ``iqcar whatif --json`` writes it, and as a part of a page.
    """

    state: State = State.RUNNING
    message: str = ""
    wrong: bool = False
    json: bytes = b""
    html: str = ""
    asked_at: float = field(default_factory=time.monotonic)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def wait(self, most_s: float) -> None:
        """Wait for its end, but not longer than some seconds."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self.ended.wait(), most_s)

    def end(self, state: State, message: str = "", wrong: bool = False) -> None:
        """Take note of how it ended."""
        self.state, self.message, self.wrong = state, printable(message), wrong
        self.ended.set()


class ModelProcess:
    """A process with the model of some logs, and the questions asked about it."""

    def __init__(self, forks: ForkServer, task: Task) -> None:
        self.phase, self.share = "", 0.0
        self.names: list[str] = []
        self.hosts: list[str] = []
        self.asked: OrderedDict[str, Asked] = OrderedDict()
        self.touched_at = time.monotonic()
        self._waiting: asyncio.Queue[tuple[str, Asked]] = asyncio.Queue()
        self.work = asyncio.create_task(self._work(forks, task))

    @property
    def busy(self) -> bool:
        """Whether somebody's question is not answered."""
        return any(one.state is State.RUNNING for one in self.asked.values())

    def ask(self, line: str) -> Asked:
        """Ask a question; one that was asked before is joined.

        Raises
        ------
        FullError
            If too many wait.
        """
        self.touched_at = time.monotonic()
        known = self.asked.get(line)
        if known is not None and known.state is not State.FAILED:
            return known
        if sum(one.state is State.RUNNING for one in self.asked.values()) >= MOST_ASKED:
            raise FullError(f"{MOST_ASKED} questions wait already", "", "ask again later")
        asked = self.asked[line] = Asked()
        self.asked.move_to_end(line)
        for old in [key for key, one in self.asked.items() if one.state is not State.RUNNING]:
            if len(self.asked) <= MOST_ASKED:
                break
            del self.asked[old]
        self._waiting.put_nowait((line, asked))
        return asked

    async def _work(self, forks: ForkServer, task: Task) -> None:
        process: Process | None = None
        message = "the process answering it ended; was there too little memory?"
        try:
            process = await forks.start("iqcar.serve.question_process", MAX_LINE_BYTES)
            await self._converse(process, task)
        except asyncio.TimeoutError:
            message = f"stopped: it took longer than {MAX_ANSWER_S / 60:.0f} min"
        except _FailedError as error:
            message = str(error)
        except (OSError, EOFError, ValueError) as error:
            LOGGER.error("what-if process: %r", error)
        except asyncio.CancelledError:
            message = "stopped"
            raise
        finally:
            if process is not None and process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
            for one in self.asked.values():
                if one.state is State.RUNNING:
                    one.end(State.FAILED, message)
            if process is not None:
                with contextlib.suppress(asyncio.CancelledError):
                    await process.wait()

    async def _converse(self, process: Process, task: Task) -> None:
        """Hand over the logs, then one question after the other."""
        stdin = cast("asyncio.StreamWriter", process.stdin)
        stdout = cast("asyncio.StreamReader", process.stdout)
        stdin.write(task.to_line())
        await stdin.drain()
        while True:
            news = await _news(stdout)
            if "failed" in news:
                raise _FailedError(news["failed"])
            if "ready" in news:
                break
            self.phase, self.share = news["phase"], news["share"]
        self.names, self.hosts = news["names"], news["hosts"]
        self.phase, self.share = "replaying", 0.0
        while True:
            line, asked = await self._waiting.get()
            stdin.write(line.encode() + b"\n")
            await stdin.drain()
            news = await _news(stdout)
            if "sizes" in news:
                asked.json, html = [await stdout.readexactly(size) for size in news["sizes"]]
                asked.html = html.decode()
                asked.end(State.DONE)
            else:
                wrong = "wrong" in news
                asked.end(State.FAILED, news["wrong" if wrong else "failed"], wrong)


class _FailedError(Exception):
    """The model cannot be made; says why."""


async def _news(stdout: asyncio.StreamReader) -> dict[str, Any]:
    line = await asyncio.wait_for(stdout.readline(), MAX_ANSWER_S)
    if not line:
        raise EOFError("the process ended")
    news: dict[str, Any] = json.loads(line)
    return news


class Questions:
    """Keeps models for questions; to be used from one event loop."""

    def __init__(self, forks: ForkServer) -> None:
        self._forks = forks
        self._models: OrderedDict[str, ModelProcess] = OrderedDict()

    def ask(self, digest: str, task: Task, changes: dict[str, Any]) -> Asked:
        """Ask a question about logs as they are now.

        Parameters
        ----------
        digest : str
            Names these logs, as they are.
        task : Task
            The logs, and the settings.
        changes : dict
            What :func:`iqcar.whatif.request.parse_request` takes.

        Raises
        ------
        FullError
            If too many models or questions are under way.
        """
        model = self._models.get(digest)
        if model is None or model.work.done():
            self._make_room()
            model = self._models[digest] = ModelProcess(self._forks, task)
        self._models.move_to_end(digest)
        return model.ask(_line(changes))

    def model(self, digest: str) -> ModelProcess | None:
        """Return the model of these logs, None if there is none."""
        return self._models.get(digest)

    def look(self, digest: str, changes: dict[str, Any]) -> Asked | None:
        """Return a question that was asked, None if it is not known; counts as waiting."""
        model = self._models.get(digest)
        if model is None:
            return None
        model.touched_at = time.monotonic()
        return model.asked.get(_line(changes))

    def drop_unused(self) -> None:
        """End processes that nobody has asked for a while, or whose answer nobody waits for."""
        for digest, model in list(self._models.items()):
            unused_s = time.monotonic() - model.touched_at
            if unused_s > (ABANDONED_S if model.busy else KEPT_S):
                model.work.cancel()
                del self._models[digest]

    async def close(self) -> None:
        """End all processes and wait until they are gone."""
        works = [model.work for model in self._models.values()]
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)

    def _make_room(self) -> None:
        for digest, model in list(self._models.items()):
            if model.work.done():
                del self._models[digest]
        while len(self._models) >= MOST_MODELS:
            idle = next((key for key, one in self._models.items() if not one.busy), None)
            if idle is None:
                raise FullError(f"{MOST_MODELS} models are asked already", "", "ask again later")
            self._models.pop(idle).work.cancel()


def _line(changes: dict[str, Any]) -> str:
    return json.dumps(changes, sort_keys=True)
