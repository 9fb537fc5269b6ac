"""Carry out injections for a command: log, progress on a terminal, result, exit code."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from iqcar.apps.cli.command import Result, explain_line
from iqcar.errors import ExitCode, IqcarError, UsageError
from iqcar.lab.inject.anomalies import Anomaly
from iqcar.version import __version__

if TYPE_CHECKING:
    from iqcar.lab.inject.injection_log import InjectionRecord
    from iqcar.lab.inject.plan import Injection
    from iqcar.lab.inject.run_plan import Stop

LATEST_START_S = 24 * 3600
"""A start is at most a day ahead: one further away is probably a mistake in the date."""
SIGNAL_EXIT = 128
"""Added to a signal's number, the exit code of a command that the signal stopped, as in shells."""


@dataclass(frozen=True, kw_only=True)
class Carrying:
    """When injections start, and where it is written what was done.

    Attributes
    ----------
    delay : TIME
        Wait this long first.
    start_at : MOMENT
        Start at this moment: 2026-05-01T12:00:00 (local, or with Z), or epoch ms.
    log : FILE
        Append what was done as JSON lines: the ground truth.
    """

    delay: str = ""
    start_at: str = ""
    log: str = ""
    json: str | None = None

    def carry_out(self, plan: list[Injection], about: dict[str, Any]) -> Result:
        """Carry out a plan, log it, print what was done, and say how the command ends."""
        from iqcar.base.files.json_text import json_bytes
        from iqcar.lab.inject.injection_log import append, check_log, one_line
        from iqcar.lab.inject.plan import check_room
        from iqcar.lab.inject.run_plan import run, stopping

        start_ms = self.start_ms()
        check_room(plan)
        if self.log:
            check_log(self.log)

        with stopping() as stop, _progress(plan) as (progress, say):

            def tell(record: InjectionRecord) -> None:
                if self.log:
                    append(self.log, record)
                if record.event == "end" and self.json != "-":
                    say(one_line(record))

            done = run(plan, start_ms=start_ms, tell=tell, progress=progress, stop=stop)
        result = {"iqcar_version": __version__, **about, "injections": done}
        return Result(
            json=lambda: json_bytes(result, indent=2) + b"\n", last=lambda: self._end(stop, done)
        )

    def start_ms(self) -> int | None:
        """Return the start in epoch ms, None for as soon as possible; raises UsageError."""
        from iqcar.base.units import parse_moment

        now_ms = round(time.time() * 1000)
        if self.delay and self.start_at:
            raise UsageError("only one of --delay and --start-at can be given")
        if self.delay:
            start_ms = now_ms + length_ms(self.delay, "--delay")
        elif self.start_at:
            start_ms = parse_moment(self.start_at, "--start-at")
            if start_ms < now_ms:
                raise UsageError(
                    f"{self.start_at} has passed", "--start-at", "name a moment to come"
                )
        else:
            return None
        if start_ms > now_ms + LATEST_START_S * 1000:
            raise UsageError("is more than a day ahead", "--delay" if self.delay else "--start-at")
        return start_ms

    def _end(self, stop: Stop, done: list[InjectionRecord]) -> None:
        """Say what went wrong; raises IqcarError if nothing could be injected."""
        if self.log and done:
            typer.echo(f"Wrote {self.log} ({len(done)} injections)", err=True)
        failed = [record for record in done if record.error]
        end_if_stopped(stop)
        if failed and len(failed) == len(done):
            raise IqcarError(f"nothing could be injected; the first error: {failed[0].error}")
        if failed:
            typer.echo(f"iqcar: {len(failed)} of {len(done)} injections failed", err=True)
            raise typer.Exit(ExitCode.PARTIAL)


@dataclass(frozen=True, kw_only=True)
class One(Carrying):
    """One injection on this host.

    Attributes
    ----------
    for_ : TIME
        How long: 20s, 2m; at most 1h.
    processes
        How many processes (network: pairs). 0: as many as the anomaly is made of.
    cores : LIST
        Cores they may run on, such as 0,2. Default: any.
    host : NAME
        The host's name as Spark knows it, for the log. Default: its own.
    """

    for_: str
    processes: int = 0
    cores: str = ""
    host: str = ""

    def inject(self, anomaly: Anomaly, settings: dict[str, Any]) -> Result:
        """Carry out the injection; raises IqcarError if it could not be."""
        check_system()
        from iqcar.lab.inject.plan import Injection, settings_of
        from iqcar.lab.inject.random_plans import parse_cores

        cores = parse_cores(self.cores, "--cores")
        values = {"processes": self.processes, "cores": cores, **settings}
        host = self.host or socket.gethostname()
        length = length_ms(self.for_, "--for")
        return self.carry_out([Injection(host, 0, length, settings_of(anomaly, values))], {})


def length_ms(text: str, option: str) -> int:
    """Read a time as whole ms."""
    from iqcar.base.units import parse_time

    return round(min(parse_time(text, option), 1e9) * 1000)


def end_if_stopped(stop: Stop) -> None:
    """End the command as shells do if a signal stopped it."""
    if stop.signal:
        typer.echo(f"iqcar: stopped by {stop.name}", err=True)
        raise typer.Exit(SIGNAL_EXIT + stop.signal)


def check_system() -> None:
    """Refuse Windows, where child processes cannot inherit what they need; raises IqcarError."""
    if sys.platform == "win32":
        raise IqcarError("Windows cannot be loaded on purpose", "", "take Linux or another Unix")


@contextmanager
def _progress(
    plan: list[Injection],
) -> Iterator[tuple[Callable[[float], None], Callable[[str], None]]]:
    """Show progress on standard error if it is a terminal; yield it and a function to print."""
    from iqcar.apps.cli.reading import status

    end_s = max((injection.until_ms for injection in plan), default=0) / 1000
    with status("starting") as line:
        if line is None:
            yield lambda seconds: None, lambda text: explain_line(text, err=False)
            return

        def show(seconds: float) -> None:
            ms = seconds * 1000
            now = [i for i in plan if i.after_ms <= ms < i.until_ms]
            words = ", ".join(f"{i.anomaly} on {i.host}" for i in now) or "quiet"
            if seconds < 0:
                words = f"begins in {-seconds:.0f} s"
            line.update(f"{words}; {max(0.0, end_s - max(0.0, seconds)):.0f} s to go")

        def say(text: str) -> None:
            line.stop()  # else the line would start after the status text
            explain_line(text, err=False)
            line.start()

        yield show, say
