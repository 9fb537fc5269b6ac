"""A port for a server that has to be told one before it starts."""

from __future__ import annotations

import random
import socket

NEVER_GIVEN = range(20_000, 32_000)
"""Systems give ports from 32768 on to whoever asks for any: one of those could be taken, by some
other test's Spark, between being found free and being used."""


def free_port() -> int:
    """Find a port that nobody uses, and nobody gets by asking for any."""
    drawn = random.SystemRandom()
    while True:
        port = drawn.choice(NEVER_GIVEN)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("", port))
            except OSError:
                continue
            return port
