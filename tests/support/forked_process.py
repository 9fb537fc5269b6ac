"""A process for the fork server that does what it is told in a line: echo it, or end somehow."""

from __future__ import annotations

import os
import signal
import sys


def main() -> None:
    word = sys.stdin.buffer.readline().decode().strip()
    print("heard", file=sys.stderr, flush=True)
    if word == "raise":
        raise ValueError("as told")
    if word == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    sys.stdout.write(f"{word} {os.getpid()} {os.getsid(0)}\n")
