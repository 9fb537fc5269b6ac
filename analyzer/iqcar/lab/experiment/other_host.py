"""Inject on another host by a command of the user's, such as ``ssh``, until it shall stop."""

from __future__ import annotations

import os
import select
import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable
from typing import IO, TYPE_CHECKING

import msgspec

from iqcar.base.formatting import short
from iqcar.errors import IqcarError
from iqcar.lab.experiment.child_process import end
from iqcar.lab.inject.injection_log import END, Record
from iqcar.lab.inject.plan import Injection
from iqcar.lab.inject.run_plan import POLL_S, Stop

if TYPE_CHECKING:
    from iqcar.lab.experiment.experiment_plan import Place

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
    tell: Callable[[Record], object],
    progress: Callable[[float], object],
    stop: Stop,
) -> None:
    """Carry out an injection; returns when its command has ended.

    The injection ends at its time, with its input, which ends when it shall stop and when this
    process ends, and with the connection.

    Parameters
    ----------
    injection : Injection
    command : tuple of str
        Words before ``iqcar inject``.
    tell : callable
        Takes each record.
    progress : callable
        Called about ten times a second with the seconds since it was ordered.
    stop : Stop

    Raises
    ------
    IqcarError
        If the command cannot be run, or ended without saying how the injection ended.
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


def check_reached(place: Place) -> None:
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


def _record(line: bytes) -> Record:
    try:
        return msgspec.json.decode(line, type=Record)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        what = f"no record of iqcar inject: {line[:80].decode('utf-8', 'replace')!r}"
        raise IqcarError(what) from error


def _why(process: subprocess.Popen[bytes], errors: IO[bytes]) -> str:
    """Return the last line of a command's messages, else its exit code."""
    errors.seek(max(errors.seek(0, os.SEEK_END) - MOST_ERROR_BYTES, 0))
    lines = [line for line in errors.read().decode("utf-8", "replace").splitlines() if line.strip()]
    return short(lines[-1]) if lines else f"exit code {process.returncode}"
