"""Loads hosts while a query runs: the hogs of ``iqcar inject``, here or on other hosts.

Another host is reached by a command of the user's, such as ``ssh``.
"""

from __future__ import annotations

import os
import select
import shlex
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO

import msgspec

from iqcar.base.units import short
from iqcar.errors import IqcarError
from iqcar.lab.experiment.experiment_plan import HogHost
from iqcar.lab.inject.anomalies import AnomalySettings
from iqcar.lab.inject.injection_log import END, START, InjectionRecord
from iqcar.lab.inject.plan import Injection
from iqcar.lab.inject.run_plan import POLL_S, Stop, epoch_ms, run


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


INJECT = ("iqcar", "inject", "ordered")
GRACE_S = 10.0
"""A command whose input has ended is killed after this: hogs end in two seconds at most."""
REACH_S = 30.0
"""A host that has not answered after this cannot be reached."""
MOST_LINE_BYTES = 1 << 20
"""Bytes of a record (1 MiB); usual ones have 200."""
MOST_ERROR_BYTES = 1 << 16


def there(command: tuple[str, ...]) -> list[str]:
    """Return the words that inject on the host that this command reaches."""
    return [*command, *INJECT]


def inject_there(
    injection: Injection,
    command: tuple[str, ...],
    tell: Callable[[InjectionRecord], object],
    progress: Callable[[float], object],
    stop: Stop,
) -> None:
    """Carry out an injection; returns when its command has ended.

    The injection ends at its time, with its input, which ends when it shall stop and when this
    process ends, and with the connection. Raises IqcarError if the command cannot be run, or ended
    without saying how the injection ended.

    command: words before ``iqcar inject``.
    tell: takes each record.
    progress: called about ten times a second with the seconds since it was ordered.
    """
    since, heard, ended, let_go = time.monotonic(), b"", False, False
    with tempfile.TemporaryFile() as errors:
        process = _started(command, errors)
        try:
            if process.stdin and process.stdout:
                _order(process.stdin, msgspec.json.encode(injection.as_json()) + b"\n")
                while True:
                    if stop.signal and not let_go:
                        let_go = True
                        process.stdin.close()
                        since = time.monotonic()
                    if let_go and time.monotonic() > since + GRACE_S:
                        break
                    if select.select([process.stdout], [], [], POLL_S)[0]:
                        more = os.read(process.stdout.fileno(), 1 << 16)
                        if not more:
                            break
                        heard += more
                        if len(heard) > MOST_LINE_BYTES and b"\n" not in heard:
                            raise IqcarError("a line that never ends", shlex.join(there(command)))
                    *lines, heard = heard.split(b"\n")
                    for line in lines:
                        record = _record(line)
                        ended = ended or record.event == END
                        tell(record)
                    progress(time.monotonic() - since)
        finally:
            end(process, GRACE_S)
        if not ended and not stop.signal:
            raise IqcarError(_why(process, errors), shlex.join(there(command)))


def check_reached(place: HogHost) -> None:
    """Refuse a host whose command does not run ``iqcar inject`` there; raises IqcarError."""
    with tempfile.TemporaryFile() as errors:
        process = _started(place.command, errors)
        end(process, REACH_S)
        if process.returncode:
            what = f"iqcar inject does not run on {place.host}: {_why(process, errors)}"
            raise IqcarError(what, shlex.join(there(place.command)))


def _started(command: tuple[str, ...], errors: IO[bytes]) -> subprocess.Popen[bytes]:
    words = there(command)
    try:
        return subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            bufsize=0,
            start_new_session=True,  # Ctrl-C reaches this process only, which then ends it
        )
    except OSError as error:
        raise IqcarError(f"{words[0]}: {error.strerror}", shlex.join(words)) from error


def _order(pipe: IO[bytes], line: bytes) -> None:
    try:
        pipe.write(line)
    except BrokenPipeError:  # its messages say why
        return


def _record(line: bytes) -> InjectionRecord:
    try:
        return msgspec.json.decode(line, type=InjectionRecord)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        what = f"no record of iqcar inject: {line[:80].decode('utf-8', 'replace')!r}"
        raise IqcarError(what) from error


def _why(process: subprocess.Popen[bytes], errors: IO[bytes]) -> str:
    """Return the last line of a command's messages, else its exit code."""
    errors.seek(max(errors.seek(0, os.SEEK_END) - MOST_ERROR_BYTES, 0))
    lines = [line for line in errors.read().decode("utf-8", "replace").splitlines() if line.strip()]
    return short(lines[-1]) if lines else f"exit code {process.returncode}"


LEAD_MS = 500
"""Hogs are started this long before they begin, so that they begin together."""
PATIENCE_S = 30.0
"""Hogs that have not begun after this will not: they take a second, and a connection a few."""


class StoppedError(Exception):
    """The experiment shall end; what ran was ended."""


@dataclass
class HogLoad:
    """How hogs ended.

    error: why those of some machine ended early; empty: none did.
    cores: processor time of all by time; None where not told.
    """

    error: str = ""
    cores: float | None = None


class _Hogs(threading.Thread):
    """The hogs of one machine."""

    def __init__(self, injection: Injection, place: HogHost, stop: Stop) -> None:
        super().__init__(daemon=True)
        self._injection, self._place, self._experiment = injection, place, stop
        self.over = Stop()
        self.begun = False
        self.ended = False
        self.error = ""
        self.cores: float | None = None

    def run(self) -> None:
        try:
            if self._place.command:
                inject_there(
                    self._injection, self._place.command, self._tell, self._look, self.over
                )
            else:
                run(
                    [self._injection], start_ms=epoch_ms() + LEAD_MS, tell=self._tell,
                    progress=self._look, stop=self.over,
                )  # fmt: skip
        except IqcarError as error:
            self.error = str(error)

    def _tell(self, record: InjectionRecord) -> None:
        self.begun = self.begun or record.event == START
        if record.event == END:
            early = "" if self.over.signal else "they ended early"
            self.ended, self.error = True, record.error or early
            self.cores = record.achieved.get("cores")

    def _look(self, _: float) -> None:
        self.over.signal = self.over.signal or self._experiment.signal


@contextmanager
def hogs(
    settings: AnomalySettings | None, places: Sequence[HogHost], longest_s: float, stop: Stop
) -> Iterator[HogLoad]:
    """Keep hogs working while the block runs, until it shall stop; None: no hogs.

    Raises IqcarError if the hogs of some place cannot be started; StoppedError if it shall stop
    before they began.

    Yields: Filled after the block.
    """
    load = HogLoad()
    if settings is None:
        yield load
        return
    for_ms = round(longest_s * 1000)
    all_hogs = [_Hogs(Injection(place.host, 0, for_ms, settings), place, stop) for place in places]
    for each in all_hogs:
        each.start()
    try:
        until = time.monotonic() + PATIENCE_S
        while not all(each.begun for each in all_hogs):
            if stop.signal:
                raise StoppedError
            if any(not each.is_alive() for each in all_hogs) or time.monotonic() > until:
                break
            time.sleep(POLL_S / 10)
        for each, place in zip(all_hogs, places, strict=True):
            if not each.begun or each.ended:
                why = each.error or "they did not begin"
                raise IqcarError(f"hogs cannot be started on {place.host}: {why}")
        yield load
    finally:
        for each in all_hogs:
            each.over.signal = signal.SIGTERM
        for each, place in zip(all_hogs, places, strict=True):
            each.join()
            if each.error:
                load.error = f"{place.host}: {each.error}"
            if each.cores is not None:
                load.cores = (load.cores or 0.0) + each.cores
