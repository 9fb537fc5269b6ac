"""Share what is scarce among clients in turn, however much one of them asks for."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterator
from contextvars import ContextVar
from typing import Generic, TypeVar

CLIENT: ContextVar[str] = ContextVar("CLIENT", default="")
"""The client whose request is answered; :class:`~iqcar.apps.serve.guard.Guard` sets it."""

T = TypeVar("T")


class FairQueue(Generic[T]):
    """A queue from which clients are served in turn; what one client puts in keeps its order."""

    def __init__(self) -> None:
        self._of: OrderedDict[str, deque[T]] = OrderedDict()

    def __len__(self) -> int:
        return sum(map(len, self._of.values()))

    def __iter__(self) -> Iterator[T]:
        return (item for items in self._of.values() for item in items)

    def clients(self) -> set[str]:
        """Return who has something in it."""
        return set(self._of)

    def put(self, client: str, item: T) -> None:
        """Add an item behind those of its client; a new client comes last."""
        self._of.setdefault(client, deque()).append(item)

    def take(self) -> tuple[str, T]:
        """Take the next client's oldest item; raises IndexError where there is none."""
        if not self._of:
            raise IndexError("the queue is empty")
        client, items = self._of.popitem(last=False)
        item = items.popleft()
        if items:
            self._of[client] = items  # behind all others
        return client, item

    def remove(self, client: str, item: T) -> None:
        """Take an item out, if it is there."""
        items = self._of.get(client, deque())
        if item in items:
            items.remove(item)
        if not items:
            self._of.pop(client, None)


class Places:
    """A fixed number of places that clients get in turn.

    Parameters
    ----------
    number : int
    make_room : callable
        Called when somebody begins to wait: it may lead to a place being given back.
    """

    def __init__(self, number: int, make_room: Callable[[], None]) -> None:
        self._free = number
        self._make_room = make_room
        self._waiting: FairQueue[asyncio.Future[None]] = FairQueue()

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def others_wait(self, clients: Collection[str]) -> bool:
        """Tell whether anybody waits besides some clients."""
        return bool(self._waiting.clients().difference(clients))

    async def take(self, client: str) -> None:
        """Wait for a place; it is given back by :meth:`give_back`."""
        if self._free:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.put(client, turn)
        self._make_room()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give_back()
            self._waiting.remove(client, turn)
            raise

    def give_back(self) -> None:
        """Give a place back: to the next who waits."""
        while len(self._waiting):
            _, turn = self._waiting.take()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
