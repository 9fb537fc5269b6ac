"""The network anomaly (BigRoots section IV-A.3): pairs of processes that send bytes over loopback.

The paper's server stands elsewhere in the LAN. Here both ends are on this host and the bytes never
leave it; what they cost is the loopback device and, for every byte, processor time.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from iqcar.errors import IqcarError, UsageError
from iqcar.lab.inject.anomalies import Anomaly, Order, Settings, check_rate
from iqcar.lab.inject.pacing import STEP_S, Pace, Turn

MOST_MESSAGE_BYTES = 16 << 20
"""A message and its reply are held in memory by both ends."""
CLIENT, SERVER = "client", "server"


@dataclass(frozen=True)
class NetworkSettings(Settings):
    """Pairs of client and server; by default one pair.

    One, not the paper's eight: over loopback a pair at full speed takes two cores already.

    Parameters
    ----------
    listen, source : str
        Loopback addresses of the servers and of the clients.
    message_bytes : int
        Bytes of a message and of its reply (the paper: 512).
    rate_bytes_per_s : float or None
        Bytes per second that all clients send at most (as many come back); None: no limit.
    """

    anomaly: ClassVar[Anomaly] = Anomaly.NETWORK

    listen: str = "127.0.0.1"
    source: str = "127.0.0.1"
    message_bytes: int = 64 << 10
    rate_bytes_per_s: float | None = None

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        super().__post_init__()
        check_loopback(self.listen, "--listen")
        check_loopback(self.source, "--source")
        if not 1 <= self.message_bytes <= MOST_MESSAGE_BYTES:
            raise UsageError(f"{self.message_bytes} bytes are not 1 B to 16 MB", "--message")
        check_rate(self.rate_bytes_per_s)

    def default_processes(self) -> int:
        """One pair."""
        return 1

    def orders(self) -> list[Order]:
        """Two for each pair, with the ends of an open connection between them."""
        orders: list[Order] = []
        try:
            for _ in range(self.processes):
                client, server = _connection(self.listen, self.source)
                orders.append(Order(len(orders), CLIENT, client))
                orders.append(Order(len(orders), SERVER, server))
        except OSError as error:
            for order in orders:
                if order.connection is not None:
                    order.connection.close()
            what = f"cannot connect from {self.source}: {error.strerror}"
            raise IqcarError(what, self.listen, "take addresses this host has") from error
        return orders

    def hog(self, order: Order, turn: Turn) -> dict[str, float]:
        """Send and await replies, or reply; the client counts for both."""
        connection = order.connection
        if connection is None:
            raise ValueError("a network hog needs a connection")
        connection.settimeout(STEP_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        message = memoryview(bytearray(self.message_bytes))
        reply = memoryview(bytearray(self.message_bytes))
        if order.role == SERVER:
            while _move(connection.recv_into, reply, turn) == len(reply):
                _move(connection.send, reply, turn)
            return {}
        rate = self.rate_bytes_per_s
        pace = Pace(rate / self.processes if rate else None)
        sent = received = 0
        while True:
            sent += _move(connection.send, message, turn)
            got = _move(connection.recv_into, reply, turn)
            received += got
            if got < len(reply):
                return {"sent_bytes": sent, "received_bytes": received}
            pace.moved(got, turn)


def check_loopback(address: str, option: str) -> None:
    """Refuse an address that could leave this host; raises UsageError."""
    try:
        loopback = ipaddress.IPv4Address(address).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        raise UsageError(f"{address!r} is no loopback address", option, "take one of 127.0.0.0/8")


def _connection(listen: str, source: str) -> tuple[socket.socket, socket.socket]:
    """Connect two sockets; nobody can connect to either of them afterwards."""
    with socket.socket() as listener:
        listener.bind((listen, 0))
        listener.listen(1)
        client = socket.socket()
        try:
            client.bind((source, 0))
            client.connect(listener.getsockname())
            while True:  # some other process on this host may have been faster
                server, peer = listener.accept()
                if peer == client.getsockname():
                    return client, server
                server.close()
        except OSError:
            client.close()
            raise


def _move(step: Callable[[memoryview], int], whole: memoryview, turn: Turn) -> int:
    """Send or receive all of it; returns less when the turn is over or the other end has gone."""
    done = 0
    while done < len(whole) and not turn.over():
        try:
            count = step(whole[done:])
        except TimeoutError:
            continue
        except ConnectionError:
            break
        if count == 0:
            break
        done += count
    return done
