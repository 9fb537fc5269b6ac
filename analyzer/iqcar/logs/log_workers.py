"""Reading several logs at once, each in a process of its own.

The processes are started anew (not forked: numba, pandas and progress bars own threads), and not
through :mod:`multiprocessing`, which would import the user's main script again in each of them.
Each runs :func:`main`, gets logs through its standard input and answers through its standard
output with frames of numpy columns. One that dies costs only the log it was reading.
"""

from __future__ import annotations

import pickle
import queue
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any, BinaryIO, Protocol, cast

from iqcar.logs.find.locate import EventLog
from iqcar.logs.ingest import failed, ingest
from iqcar.tables import Tables

_START = "import sys; sys.path[:] = sys.argv[1:]; from iqcar.logs.log_workers import main; main()"
_LENGTH = struct.Struct("<Q")


class Report(Protocol):
    """Takes in the progress of several logs."""

    def __call__(self, path: str, read: int) -> None:
        """Tell how many stored bytes of a log have been read."""

    def finish(self, path: str, size: int) -> None:
        """Tell that a log of this size is done."""


def ingest_in_processes(
    logs: Sequence[EventLog], sizes: Sequence[int], processes: int, report: Report
) -> list[Tables]:
    """Read logs in several processes, the largest first.

    Returns
    -------
    list of Tables
        One per log, in the order of ``logs``; a log whose process died is failed.
    """
    todo: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in sorted(range(len(logs)), key=lambda n: -sizes[n]):
        todo.put(number)
    news: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
    running: dict[int, subprocess.Popen[bytes]] = {}
    stop = threading.Event()
    threads = [
        threading.Thread(target=_feed, args=(n, logs, todo, news, running, stop), daemon=True)
        for n in range(processes)
    ]
    results: list[Tables | None] = [None] * len(logs)
    try:
        for thread in threads:
            thread.start()
        left = len(logs)
        while left:
            number, what = news.get()
            if isinstance(what, int):
                report(logs[number].path, what)
                continue
            results[number] = what
            report.finish(logs[number].path, sizes[number])
            left -= 1
    finally:
        stop.set()
        for process in list(running.values()):
            process.kill()
        for thread in threads:
            thread.join()
    return cast("list[Tables]", results)


def _feed(
    worker: int,
    logs: Sequence[EventLog],
    todo: queue.SimpleQueue[int],
    news: queue.SimpleQueue[tuple[int, Any]],
    running: dict[int, subprocess.Popen[bytes]],
    stop: threading.Event,
) -> None:
    """Give one process a log after the other; start another one if it dies."""
    process: subprocess.Popen[bytes] | None = None
    while not stop.is_set():
        try:
            number = todo.get_nowait()
        except queue.Empty:
            break
        try:
            if process is None:
                process = running[worker] = _start()
            _send(cast("BinaryIO", process.stdin), logs[number])
            while isinstance(answer := _receive(cast("BinaryIO", process.stdout)), int):
                news.put((number, answer))
            news.put((number, answer))
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            code = _end(running.pop(worker, None))
            process = None
            why = f"ended with code {code}" if code is not None else str(error)
            news.put((number, failed(logs[number].path, f"the process reading it {why}")))
    if process is not None:
        _end(process)


def _start() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", _START, *sys.path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        # A terminal's Ctrl-C is for this process, which ends the others itself.
        start_new_session=True,
    )


def _end(process: subprocess.Popen[bytes] | None) -> int | None:
    if process is None:
        return None
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            try:
                stream.close()
            except OSError:
                continue
    return process.wait()


def _send(stream: BinaryIO, what: object) -> None:
    data = pickle.dumps(what, protocol=5)
    stream.write(_LENGTH.pack(len(data)))
    stream.write(data)
    stream.flush()


def _receive(stream: BinaryIO) -> Any:
    """Read one answer; only ever from a process that this package started."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    (length,) = _LENGTH.unpack(head)
    data = stream.read(length)
    if len(data) < length:
        raise EOFError
    return pickle.loads(data)  # noqa: S301


def main() -> None:
    """Read the logs that come in through standard input until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    incoming, outgoing = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # whatever a library prints must not end up among the answers
    while True:
        try:
            log: EventLog = _receive(incoming)
        except EOFError:
            return
        _send(outgoing, ingest(log, lambda done: _send(outgoing, done)))
