"""Answers what-if questions live: one process per model, kept for further questions."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from iqcar.apps.serve.analyses import ABANDONED_S, MAX_LINE_BYTES, FullError, State
from iqcar.apps.serve.analysis_process import Task
from iqcar.apps.serve.fair_turns import CLIENT, FairQueue, Places
from iqcar.apps.serve.fork_server import ForkServer, Process, end
from iqcar.base.units import duration, printable

MOST_MODELS = 2
"""Models kept at a time (2): each is a process that holds a log's tables in memory."""

KEPT_S = 900.0
"""Seconds that a model is kept after the last question (15 minutes)."""

MOST_ASKED = 32
"""Questions about one model that are remembered with their answers (32)."""

MOST_OF_CLIENT = 8
"""Questions of one client that wait at a time (8)."""

MOST_OF_ALL = 64
"""Questions that wait at a time (64)."""

MAX_MODEL_S, SHARED_MODEL_S = 3600.0, 300.0
"""Seconds that making a model may take (an hour), and while other clients wait (5 minutes)."""

MAX_ANSWER_S, SHARED_ANSWER_S = 600.0, 60.0
"""Seconds that an answer may take (10 minutes), and while other clients wait (1 minute)."""

LOOK_S = 0.5
"""Seconds between two looks whether others wait (half of one)."""

WAITING = "waiting for other questions"
"""Phase of a model that has no process yet."""

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
    client : str
        Who asked first.
    json, html : bytes and str
        The answer as ``iqcar whatif --json`` writes it, and as a part of a page.
    """

    state: State = State.RUNNING
    message: str = ""
    wrong: bool = False
    client: str = ""
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
    """A process with the model of some logs, and the questions asked about it.

    Its process gets a place of ``places``, and gives it up while other clients wait; ``answered``
    is called when nobody waits for an answer of it any more.
    """

    def __init__(
        self, forks: ForkServer, task: Task, places: Places, answered: Callable[[], None]
    ) -> None:
        self.placed, self.phase, self.share = False, WAITING, 0.0
        self.names: list[str] = []
        self.hosts: list[str] = []
        self.asked: OrderedDict[str, Asked] = OrderedDict()
        self.touched_at = time.monotonic()
        self._places, self._answered = places, answered
        self._waiting: FairQueue[tuple[str, Asked]] = FairQueue()
        self._clients: set[str] = set()
        self._more = asyncio.Event()
        self.work = asyncio.create_task(self._work(forks, task))

    @property
    def busy(self) -> bool:
        """Whether somebody's question is not answered."""
        return any(one.state is State.RUNNING for one in self.asked.values())

    def ask(self, line: str, client: str) -> Asked:
        """Ask a question, or join one that was asked; raises FullError if too many wait."""
        self.touched_at = time.monotonic()
        known = self.asked.get(line)
        if known is not None and known.state is not State.FAILED:
            return known
        waiting = [one for one in self.asked.values() if one.state is State.RUNNING]
        if len(waiting) >= MOST_ASKED:
            raise FullError(f"{MOST_ASKED} questions wait already", "", "ask again later")
        asked = self.asked[line] = Asked(client=client)
        self.asked.move_to_end(line)
        for old in [key for key, one in self.asked.items() if one.state is not State.RUNNING]:
            if len(self.asked) <= MOST_ASKED:
                break
            del self.asked[old]
        self._waiting.put(client, (line, asked))
        self._more.set()
        return asked

    async def _work(self, forks: ForkServer, task: Task) -> None:
        message = "stopped"
        try:
            while True:
                await self._asked_for()
                await self._places.take(next(iter(self._waiting.clients())))
                self.placed = True
                try:
                    await self._answer_some(forks, task)
                finally:
                    self.placed, self.phase, self.share = False, WAITING, 0.0
                    self._places.give_back()
        except _FailedError as error:
            message = str(error)
        except (OSError, EOFError, ValueError) as error:
            LOGGER.error("what-if process: %r", error)
            message = "the process answering it ended; was there too little memory?"
        finally:
            for one in self.asked.values():
                if one.state is State.RUNNING:
                    one.end(State.FAILED, message)

    async def _asked_for(self) -> None:
        """Wait until a question waits."""
        while not len(self._waiting):
            self._more.clear()
            await self._more.wait()

    async def _answer_some(self, forks: ForkServer, task: Task) -> None:
        """Answer questions until a place is wanted by others."""
        process = await forks.start("iqcar.apps.serve.question_process", MAX_LINE_BYTES)
        try:
            await self._converse(process, task)
        finally:
            with contextlib.suppress(asyncio.CancelledError):
                await end(process)

    async def _converse(self, process: Process, task: Task) -> None:
        """Hand over the logs, then one question after the other."""
        stdin = cast("asyncio.StreamWriter", process.stdin)
        stdout = cast("asyncio.StreamReader", process.stdout)
        stdin.write(task.to_line())
        await stdin.drain()
        began = time.monotonic()
        while True:
            news = await self._news(stdout, began, MAX_MODEL_S, SHARED_MODEL_S)
            if "failed" in news:
                raise _FailedError(news["failed"])
            if "ready" in news:
                break
            self.phase, self.share = news["phase"], news["share"]
        self.names, self.hosts = news["names"], news["hosts"]
        self.phase, self.share = "replaying", 0.0
        while True:
            if not len(self._waiting):
                self._answered()
            await self._asked_for()
            client, (line, asked) = self._waiting.take()
            self._clients = {client}
            stdin.write(line.encode() + b"\n")
            await stdin.drain()
            try:
                news = await self._news(stdout, time.monotonic(), MAX_ANSWER_S, SHARED_ANSWER_S)
                if "sizes" in news:
                    asked.json, html = [await stdout.readexactly(size) for size in news["sizes"]]
                    asked.html = html.decode()
                    asked.end(State.DONE)
                else:
                    wrong = "wrong" in news
                    asked.end(State.FAILED, news["wrong" if wrong else "failed"], wrong)
            except _FailedError as error:
                asked.end(State.FAILED, str(error))
                return
            except EOFError:
                ended = "the process answering it ended; was there too little memory?"
                asked.end(State.FAILED, ended)
                return
            if self._places.others_wait({client}):
                return

    async def _news(
        self, stdout: asyncio.StreamReader, began: float, most_s: float, shared_s: float
    ) -> dict[str, Any]:
        """Wait for what the process says; less long while other clients wait for a place."""
        reading = asyncio.ensure_future(stdout.readline())
        try:
            while not (await asyncio.wait({reading}, timeout=LOOK_S))[0]:
                took = time.monotonic() - began
                others = self._places.others_wait(self._clients | self._waiting.clients())
                if took > most_s or (others and took > shared_s):
                    why = ", while others waited" if took <= most_s else ""
                    raise _FailedError(f"stopped: it took longer than {duration(took * 1e3)}{why}")
        finally:
            reading.cancel()
        line = reading.result()
        if not line:
            raise EOFError("the process ended")
        news: dict[str, Any] = json.loads(line)
        return news


class _FailedError(Exception):
    """There is no model, or no answer; says why."""


class Questions:
    """Keeps models for questions; to be used from one event loop."""

    def __init__(self, forks: ForkServer) -> None:
        self._forks = forks
        self._models: OrderedDict[str, ModelProcess] = OrderedDict()
        self._places = Places(MOST_MODELS, self._drop_idle)

    def ask(self, digest: str, task: Task, changes: dict[str, Any]) -> Asked:
        """Ask a question about logs as they are now, which ``digest`` names.

        ``changes`` are what :func:`iqcar.replay.whatif.question.parse_request` takes. Raises
        FullError if too many questions are under way, of this client or of all.
        """
        client = CLIENT.get()
        known = self.look(digest, changes)
        if known is None or known.state is State.FAILED:
            self._check_room(client)
        model = self._models.get(digest)
        if model is None or model.work.done():
            model = ModelProcess(self._forks, task, self._places, self._answered)
            self._models[digest] = model
        self._models.move_to_end(digest)
        return model.ask(_line(changes), client)

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

    def _check_room(self, client: str) -> None:
        running = [
            one.client
            for model in self._models.values()
            for one in model.asked.values()
            if one.state is State.RUNNING
        ]
        if running.count(client) >= MOST_OF_CLIENT:
            raise FullError(f"{MOST_OF_CLIENT} of your questions wait already", "", "ask later")
        if len(running) >= MOST_OF_ALL:
            raise FullError(f"{MOST_OF_ALL} questions wait already", "", "ask again later")

    def _answered(self) -> None:
        if self._places.waiting:
            self._drop_idle()

    def _drop_idle(self) -> None:
        """End the process of the model that was asked longest ago, of those that nobody asks."""
        for digest, model in list(self._models.items()):
            if model.placed and not model.busy:
                self._models.pop(digest).work.cancel()
                return


def _line(changes: dict[str, Any]) -> str:
    return json.dumps(changes, sort_keys=True)
