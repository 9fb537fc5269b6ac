"""Runs a plan: starts each injection in time, ends all, and reports what they did.

The log of injections has a JSON object per line: the truth for scores. A line with event `start` is
written when the first hog works, one with event `end` when the last one has ended; that one is
complete in itself. A start without an end means that the run was killed: its hogs ended then too,
but nobody wrote down when.
"""

from __future__ import annotations

import json
import os
import secrets
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from iqcar.base.files.derived import open_to_append
from iqcar.errors import IqcarError
from iqcar_lab.inject.anomalies import HogSpec
from iqcar_lab.inject.plan import Injection, in_order

GRACE_S = 5.0
"""A hog that has not ended this long after its end is killed."""
HELD_NOT_MOVED = ("held_bytes",)
"""Counts of bytes that make no rate."""


@contextmanager
def _pinned(cores: tuple[int, ...]) -> Iterator[None]:
    """Run on these cores, as processes started meanwhile will from their first instruction."""
    if not cores:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def epoch_ms() -> int:
    """Return the time by the clock that Spark's logs use."""
    return round(time.time() * 1000)


@dataclass
class _Hog:
    """A hog's process and what it has said."""

    process: subprocess.Popen[bytes]
    heard: bytes = b""
    start_ms: int | None = None
    end_ms: int | None = None
    achieved: dict[str, float] = field(default_factory=dict)
    error: str = ""
    gone: bool = False

    def read(self, selector: selectors.BaseSelector) -> None:
        """Take what it says; at its end reap it."""
        assert self.process.stdout  # noqa: S101 (both are pipes)
        more = os.read(self.process.stdout.fileno(), 1 << 16)
        if more:
            self.heard += more
            return
        selector.unregister(self.process.stdout)
        self.process.stdout.close()
        code = self.process.wait()
        self.gone = True
        self.take()
        if self.start_ms is not None and self.end_ms is None:
            self.end_ms = epoch_ms()
            self.error = self.error or f"hog {self.process.pid} was lost (exit code {code})"

    def take(self) -> None:
        """Understand the whole lines that were heard."""
        *lines, self.heard = self.heard.split(b"\n")
        for line in map(json.loads, lines):
            self.start_ms = line.get("started_ms", self.start_ms)
            self.end_ms = line.get("ended_ms", self.end_ms)
            self.achieved = line.get("achieved", self.achieved)
            self.error = line.get("error", self.error)

    def let_go(self) -> None:
        """Tell it to stop, as its starter's death would."""
        if self.process.stdin and not self.process.stdin.closed:
            self.process.stdin.close()


class RunningInjection:
    """An injection whose hogs have been started."""

    def __init__(
        self,
        injection: Injection,
        number: int,
        run_id: str,
        plan_start_ms: int,
        selector: selectors.BaseSelector,
    ) -> None:
        self._injection = injection
        self._planned = (plan_start_ms + injection.after_ms, plan_start_ms + injection.until_ms)
        self._latest_s = self._planned[1] / 1000 + GRACE_S
        self._identity = (run_id, number)
        self._hogs: list[_Hog] = []
        self._told_start = False
        self._stopped = self._error = ""
        specs: list[HogSpec] = []
        try:
            injection.settings.check_room()
            specs = injection.settings.hog_specs()
            for spec in specs:
                self._start(spec)
        except (IqcarError, OSError) as error:
            self._error = str(error)
            self._let_go()
        finally:
            for spec in specs:
                if spec.connection:
                    spec.connection.close()
        for hog in self._hogs:
            if hog.process.stdout:
                selector.register(hog.process.stdout, selectors.EVENT_READ, hog)

    def _start(self, spec: HogSpec) -> None:
        fd = spec.connection.fileno() if spec.connection else None
        order = {
            "anomaly": str(self._injection.anomaly),
            "settings": asdict(self._injection.settings),
            "index": spec.index,
            "role": spec.role,
            "fd": fd,
            "start_ms": self._planned[0],
            "end_ms": self._planned[1],
        }
        with _pinned(self._injection.settings.cores):
            process = subprocess.Popen(
                [sys.executable, "-m", "iqcar_lab.inject.hog"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                pass_fds=() if fd is None else (fd,),
                start_new_session=True,  # Ctrl-C reaches this process only, which then ends them
            )
        self._hogs.append(_Hog(process))
        if process.stdin:
            process.stdin.write(json.dumps(order).encode() + b"\n")

    def stop(self, reason: str) -> None:
        """End it before its time."""
        if not self._stopped:
            self._stopped = reason
            self._latest_s = time.time() + GRACE_S
            self._let_go()

    def _let_go(self) -> None:
        for hog in self._hogs:
            hog.let_go()

    def kill(self) -> None:
        """End it at once."""
        self._let_go()
        for hog in self._hogs:
            if not hog.gone:
                hog.process.kill()
                hog.process.wait()

    def news(self) -> Iterator[InjectionRecord]:
        """Return records that have become due."""
        for hog in self._hogs:
            hog.take()
            if hog.error and not self._error:
                self._error = hog.error
                self._let_go()
        if not self._told_start and any(hog.start_ms is not None for hog in self._hogs):
            self._told_start = True
            yield self._record(START)
        if all(hog.gone for hog in self._hogs):
            yield self._record(END)
        elif time.time() > self._latest_s:
            for hog in self._hogs:
                hog.process.kill()

    def _record(self, event: str) -> InjectionRecord:
        times = [
            HogTime(hog.process.pid, hog.start_ms, hog.end_ms if event == END else None)
            for hog in self._hogs
            if hog.start_ms is not None
        ]
        start = min((t.start_ms for t in times), default=None)
        end = max((t.end_ms for t in times if t.end_ms is not None), default=None)
        error = self._error
        if event == END and not (error or self._stopped) and len(times) < len(self._hogs):
            error = f"{len(self._hogs) - len(times)} of {len(self._hogs)} hogs never started"
        return InjectionRecord(
            version=VERSION,
            event=event,
            run=self._identity[0],
            injection=self._identity[1],
            anomaly=str(self._injection.anomaly),
            host=self._injection.host,
            machine=socket.gethostname(),
            planned_start_ms=self._planned[0],
            planned_end_ms=self._planned[1],
            start_ms=start,
            end_ms=end,
            settings=asdict(self._injection.settings),
            hogs=times,
            achieved=_achieved(self._hogs, start, end) if event == END else {},
            stopped=self._stopped,
            error=error,
        )


def _achieved(hogs: list[_Hog], start_ms: int | None, end_ms: int | None) -> dict[str, float]:
    """Sums over the hogs, and rates over the time from the first start to the last end."""
    sums: dict[str, Any] = {}
    for hog in hogs:
        for name, count in hog.achieved.items():
            sums[name] = sums.get(name, 0) + count
    if start_ms is None or end_ms is None or end_ms <= start_ms:
        return sums
    rates = {
        f"{name}_per_s": round(count * 1000 / (end_ms - start_ms))
        for name, count in sums.items()
        if name.endswith("_bytes") and name not in HELD_NOT_MOVED
    }
    if "cpu_ms" in sums:
        rates["cores"] = round(sums["cpu_ms"] / (end_ms - start_ms), 3)
    return sums | rates


LEAD_S = 1.0
"""Hogs are started this long before their time, so that all of them begin on it."""
POLL_S = 0.1
"""The longest time until a signal is obeyed."""


@dataclass
class Stop:
    """Why a run shall end early: the number of a signal; 0: it shall not."""

    signal: int = 0

    @property
    def name(self) -> str:
        """The signal's name; empty: none."""
        return signal.Signals(self.signal).name if self.signal else ""


@contextmanager
def stopping(*, second_interrupts: bool = False) -> Iterator[Stop]:
    """Note SIGINT, SIGTERM and SIGHUP as the reason to stop, as long as the block runs.

    Only the first one is noted where a second one shall interrupt.
    """
    stop = Stop()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def note(number: int, _: object) -> None:
        stop.signal = number
        for other in numbers if second_interrupts else ():
            signal.signal(other, signal.default_int_handler)

    before = {number: signal.signal(number, note) for number in numbers}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run(
    plan: Sequence[Injection],
    *,
    start_ms: int | None = None,
    tell: Callable[[InjectionRecord], object] = lambda record: None,
    progress: Callable[[float], object] = lambda seconds: None,
    stop: Stop | None = None,
) -> list[InjectionRecord]:
    """Carry out a plan; returns when its last hog has ended.

    Returns: The end of each injection that was begun, in the order they ended. One that failed has
    an ``error``.

    plan: in any order.
    start_ms: epoch ms that the plan counts from; by default as soon as the first hogs are ready.
    tell: takes each record as it is made: an injection's start, then its end.
    progress: takes the seconds since the plan's start, about ten times a second.
    stop: looked at all the time; what has not begun when it is set is never told.
    """
    if start_ms is None:
        start_ms = round((time.time() + LEAD_S) * 1000)
    stop = stop or Stop()
    run_id = secrets.token_hex(8)
    waiting = list(enumerate(in_order(plan)))[::-1]
    under_way: list[RunningInjection] = []
    done: list[InjectionRecord] = []
    with selectors.DefaultSelector() as selector:
        try:
            while waiting or under_way:
                if stop.signal:
                    waiting = []
                    for running in under_way:
                        running.stop(stop.name)
                while waiting and start_ms + waiting[-1][1].after_ms <= epoch_ms() + LEAD_S * 1000:
                    number, injection = waiting.pop()
                    under_way.append(
                        RunningInjection(injection, number, run_id, start_ms, selector)
                    )
                for key, _ in selector.select(POLL_S):
                    key.data.read(selector)
                progress(epoch_ms() / 1000 - start_ms / 1000)
                for running in list(under_way):
                    for record in running.news():
                        tell(record)
                        if record.event == END:
                            under_way.remove(running)
                            done.append(record)
        finally:
            for running in under_way:
                running.kill()
    return done


VERSION = 1
START, END = "start", "end"
MOST_LINE_BYTES = 1 << 20
MOST_LOG_BYTES = 256 << 20


class HogTime(msgspec.Struct, frozen=True):
    """When one hog worked (epoch ms; end None where it was lost)."""

    pid: int
    start_ms: int
    end_ms: int | None


class InjectionRecord(msgspec.Struct, frozen=True):
    """One line of the log.

    event: ``start`` or ``end``.
    run, injection: which run of the command, and which injection of its plan, from 0.
    anomaly, host, machine: what was injected, on which host (a label), and the name of the machine
        that did it.
    planned_start_ms, planned_end_ms: epoch ms.
    start_ms, end_ms: epoch ms of the first hog's start and the last one's end; None where it never
        came to that.
    settings: how strong, as asked for.
    hogs: the processes.
    achieved: sums over the hogs: ``cpu_ms``, ``cores`` (CPU time per wall time) and the anomaly's
        own counts; ``…_per_s`` are rates over the time from start to end.
    stopped: the signal that ended it early; empty: none.
    error: why it failed; empty: it did not.
    """

    version: int
    event: str
    run: str
    injection: int
    anomaly: str
    host: str
    machine: str
    planned_start_ms: int
    planned_end_ms: int
    start_ms: int | None = None
    end_ms: int | None = None
    settings: dict[str, Any] = {}
    hogs: list[HogTime] = []
    achieved: dict[str, float] = {}
    stopped: str = ""
    error: str = ""

    def line(self) -> bytes:
        """Return the record as a line of the log."""
        return msgspec.json.encode(self) + b"\n"


def check_log(path: str) -> None:
    """Refuse early what could not be appended to later; raises IqcarError."""
    if Path(path).is_dir():
        raise IqcarError("is a folder", path, "name a file with --log")
    try:
        os.close(open_to_append(path))
    except OSError as error:
        raise IqcarError(f"cannot be written: {error.strerror}", path) from error


def append(path: str, record: InjectionRecord) -> None:
    """Append a record with one write, so that several runs can share a log; raises IqcarError."""
    try:
        descriptor = open_to_append(path)
        try:
            os.write(descriptor, record.line())
        finally:
            os.close(descriptor)
    except OSError as error:
        raise IqcarError(f"cannot be written: {error.strerror}", path) from error


def read_log(path: str) -> list[InjectionRecord]:
    """Read what was injected: the `end` of each injection, or its `start` where there is no end.

    Raises IqcarError if the file cannot be read, or a line in it is none of this log.
    """
    file = Path(path)
    decoder = msgspec.json.Decoder(InjectionRecord)
    found: dict[tuple[str, int], InjectionRecord] = {}
    try:
        if file.stat().st_size > MOST_LOG_BYTES:
            raise IqcarError("is larger than 256 MB: no log of injections", path)
        with file.open("rb") as lines:
            for number, line in enumerate(iter(lambda: lines.readline(MOST_LINE_BYTES), b""), 1):
                record = _decoded(decoder, line, f"{path}:{number}")
                key = record.run, record.injection
                if record.event == END or key not in found:
                    found[key] = record
    except OSError as error:
        raise IqcarError(f"cannot be read: {error.strerror}", path) from error
    return sorted(found.values(), key=lambda r: (r.planned_start_ms, r.run, r.injection))


def _decoded(
    decoder: msgspec.json.Decoder[InjectionRecord], line: bytes, where: str
) -> InjectionRecord:
    try:
        record = decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise IqcarError(f"is no record of an injection: {error}", where) from error
    start, end = record.start_ms, record.end_ms
    if record.event not in (START, END) or (start is not None and end is not None and end < start):
        raise IqcarError("is an impossible record of an injection", where)
    return record


def one_line(record: InjectionRecord) -> str:
    """Say what an injection was."""
    name = f"{record.anomaly} on {record.host}"
    if record.start_ms is None or record.end_ms is None:
        return f"{name}: {record.error or 'stopped before it began'}"
    parts = [f"{(record.end_ms - record.start_ms) / 1000:.1f} s"]
    parts += [f"{what} {amount:,.4g}" for what, amount in record.achieved.items()]
    parts += [f"stopped by {record.stopped}"] if record.stopped else []
    parts += [record.error] if record.error else []
    return f"{name}: {', '.join(parts)}"
