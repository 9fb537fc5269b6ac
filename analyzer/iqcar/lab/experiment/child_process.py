"""End a child process in a process group of its own."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress


def end(process: subprocess.Popen[bytes], patience_s: float) -> None:
    """Close a process's input, wait for it, and kill its group if it does not end."""
    try:
        if process.stdin:
            process.stdin.close()
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        pass
    finally:
        # The group may have members left though its first process has ended.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdout:
            process.stdout.close()
