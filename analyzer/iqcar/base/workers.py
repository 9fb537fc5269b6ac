"""Starts Python processes that run a function of this package, and works off items in them.

Processes are started anew: pandas and progress bars own threads, so forking is not safe.
They are not started through :mod:`multiprocessing`, which imports the user's main script again in
each of them.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any, BinaryIO, NamedTuple, cast


def usable_cores() -> list[int]:
    """Return the numbers of the processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def at_end_of(descriptor: int, act: Callable[[], object]) -> None:
    """Act, in a thread, once an input ends: whoever held its other end let go or was killed."""

    def wait() -> None:
        with suppress(OSError):
            while os.read(descriptor, 1):
                pass
        act()

    threading.Thread(target=wait, daemon=True).start()


RUN = "import sys; sys.path[:] = sys.argv[1:]; {}from {} import {} as main; main(*{})"
"""What a new process runs, given this process's ``sys.path`` as arguments."""
_QUICK = "sys.modules['typing_extensions'] = None; "
"""msgspec does without typing_extensions, which would take a sixth of the start."""


class Died(NamedTuple):
    """Stands for the result of an item whose process died.

    why: the end of a sentence about the process.
    """

    why: str


def command(module: str, main: str = "main", *words: object, quick: bool = False) -> list[str]:
    """Return the command that runs a function in a new process, given some words.

    A quick one does without site-packages' own start files.
    """
    program = RUN.format(_QUICK if quick else "", module, main, words)
    return [sys.executable, *(["-S"] if quick else []), "-c", program, *sys.path]


def start(words: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a process that is talked with through its standard input and output."""
    return subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # a terminal's Ctrl-C is for this process, which ends the others
        **options,
    )


def end(process: subprocess.Popen[bytes]) -> int:
    """Close the streams of a process, wait for its end, and return its exit code."""
    for stream in (process.stdin, process.stdout):
        try:
            cast("BinaryIO", stream).close()
        except OSError:
            continue
    return process.wait()


def in_processes(
    function: Callable[[Any, Callable[[Any], None]], Any],
    items: Sequence[Any],
    processes: int,
    on_news: Callable[[int, Any], None] = lambda _number, _news: None,
) -> Iterator[tuple[int, Any]]:
    """Apply a function to items in several processes, in their order.

    function: of a module. Takes an item, and what tells news of it.
    processes: most processes that run at once.
    on_news: called in this thread with the number of an item and what was told of it.

    Yields number and result of each item, as they end; :class:`Died` if its process did.
    """
    todo = deque(enumerate(items))
    news: SimpleQueue[tuple[int, bool, Any]] = SimpleQueue()
    running: dict[int, subprocess.Popen[bytes]] = {}
    stop = Event()
    threads = [
        Thread(target=_feed, args=(place, function, todo, news, running, stop), daemon=True)
        for place in range(min(processes, len(items)))
    ]
    left = len(items)
    try:
        for thread in threads:
            thread.start()
        while left:
            number, is_result, what = news.get()
            if is_result:
                left -= 1
                yield number, what
            else:
                on_news(number, what)
    finally:
        stop.set()
        for process in list(running.values()):
            process.kill()
        for thread in threads:
            thread.join()


def _feed(
    place: int,
    function: Callable[..., Any],
    todo: deque[tuple[int, Any]],
    news: SimpleQueue[tuple[int, bool, Any]],
    running: dict[int, subprocess.Popen[bytes]],
    stop: Event,
) -> None:
    """Give one process an item after the other; start another one if it dies."""
    while not stop.is_set():
        try:
            number, item = todo.popleft()
        except IndexError:
            break
        try:
            if place not in running:
                running[place] = start(command(__name__))
            if stop.is_set():
                running[place].kill()
            for is_result, what in _answers(running[place], function, item):
                news.put((number, is_result, what))
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            process = running.pop(place, None)
            why = f"ended with code {end(process)}" if process is not None else str(error)
            news.put((number, True, Died(why)))
    if place in running:
        end(running.pop(place))


def _answers(
    process: subprocess.Popen[bytes], function: Callable[..., Any], item: Any
) -> Iterator[tuple[bool, Any]]:
    """Have a process work on an item; yield whether each answer is the result, and the answer.

    Unpickles only what a process sends that this package started.
    """
    _send(process.stdin, (function, item))
    is_result = False
    while not is_result:
        is_result, what = pickle.load(cast("BinaryIO", process.stdout))  # noqa: S301
        yield is_result, what


def _send(stream: Any, what: object) -> None:
    pickle.dump(what, stream, protocol=5)
    stream.flush()


def main() -> None:
    """Work on the items that come in through standard input until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    incoming, outgoing = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # whatever a library prints must not end up among the answers
    while True:
        try:
            function, item = pickle.load(incoming)  # noqa: S301
        except EOFError:
            return
        _send(outgoing, (True, function(item, lambda news: _send(outgoing, (False, news)))))
