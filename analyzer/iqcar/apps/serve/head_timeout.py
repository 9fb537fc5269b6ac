"""Close connections whose clients keep the server waiting, so that others get their places.

A client has a limited time to send the head of a request. Where all places are taken, the
connection that has waited longest on its client is closed for a new one, whatever it waits for: a
request, the rest of one, or its answer being read. So no number of idle or slow clients keeps out
one that asks.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_HELD = 200
"""Connections held (200): more than a system lets wait at once, so that a new one has asked before
as many newer ones can take its place."""

HEAD_S = 10.0
"""Seconds in which a connection must bring the whole head of a request (10)."""


class ImpatientProtocol(H11Protocol):
    """HTTP/1.1 as uvicorn speaks it, which waits for clients only while it can afford to."""

    _patience: asyncio.TimerHandle | None = None
    _waits_since: float | None = None
    """When it began to wait on its client, on the loop's clock; None while the server works."""

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for a request, in the place of another connection if there is none."""
        super().connection_made(transport)
        self._waits_since = self.loop.time()
        self._watch()
        if len(self.connections) > MAX_HELD:
            self._replace_another()

    def data_received(self, data: bytes) -> None:
        """Go on waiting until the head is whole; a byte now and then gains no time."""
        super().data_received(data)
        self._watch()
        self._note()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._stop_waiting()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        super().on_response_complete()
        self._note()

    def pause_writing(self) -> None:
        """Begin to wait until the client has read more of its answer."""
        super().pause_writing()
        self._note()

    def resume_writing(self) -> None:
        """Go on answering."""
        super().resume_writing()
        self._note()

    def _note(self) -> None:
        """Note whether it is the client's turn."""
        asked = self.cycle is not None and not self.cycle.response_complete
        if asked and not self.cycle.more_body and not self.flow.write_paused:
            self._waits_since = None
        elif self._waits_since is None:
            self._waits_since = self.loop.time()

    def _replace_another(self) -> None:
        """Close the connection that has waited on its client longest, if any other has."""
        others = [cast("ImpatientProtocol", one) for one in self.connections if one is not self]
        waiting = [one for one in others if one._waits_since is not None]
        if waiting:
            longest = min(waiting, key=lambda one: one._waits_since or 0.0)
            self.connections.discard(longest)
            longest.transport.abort()

    def _watch(self) -> None:
        if self.conn.their_state is not h11.IDLE:
            self._stop_waiting()
        elif self._patience is None:
            self._patience = self.loop.call_later(HEAD_S, self._close)

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _close(self) -> None:
        self._patience = None
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self.transport.close()
