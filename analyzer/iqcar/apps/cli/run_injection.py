"""Carry out injections for a command: log, progress on a terminal, result, exit code."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from iqcar.errors import ExitCode, IqcarError, UsageError
from iqcar.lab.inject.anomalies import Anomaly
from iqcar.version import __version__

if TYPE_CHECKING:
    from iqcar.lab.inject.injection_log import InjectionRecord
    from iqcar.lab.inject.plan import Injection

LATEST_START_S = 24 * 3600
"""A start is at most a day ahead: one further away is probably a mistake in the date."""
SIGNAL_EXIT = 128
"""Added to a signal's number, the exit code of a command that the signal stopped, as in shells."""


@dataclass(frozen=True)
class Common:
    """Options that all anomalies share, as given on the command line."""

    for_: str
    processes: int
    cores: str
    host: str
    delay: str
    start_at: str
    log: str
    json: str | None
    force: bool


def check_system() -> None:
    """Refuse Windows, where child processes cannot inherit what they need; raises IqcarError."""
    if sys.platform == "win32":
        raise IqcarError("Windows cannot be loaded on purpose", "", "take Linux or another Unix")


def inject_one(anomaly: Anomaly, settings: dict[str, Any], common: Common) -> None:
    """Carry out one injection."""
    check_system()
    from iqcar.lab.inject.plan import Injection, settings_of
    from iqcar.lab.inject.random_plans import parse_cores
    from iqcar.logs.attach.host_sampler import parse_time

    values = {
        "processes": common.processes,
        "cores": parse_cores(common.cores, "--cores"),
        **settings,
    }
    for_s = parse_time(common.for_, "--for")
    injection = Injection(
        common.host or socket.gethostname(),
        0,
        round(min(for_s, 1e9) * 1000),
        settings_of(anomaly, values),
    )
    start_ms = moment(common.delay, common.start_at)
    carry_out([injection], start_ms, common.log, json=common.json, force=common.force, about={})


def moment(delay: str, start_at: str) -> int | None:
    """Return the start in epoch ms, None for as soon as possible; raises UsageError."""
    import time

    from iqcar.lab.inject.parsing import parse_moment
    from iqcar.logs.attach.host_sampler import parse_time

    now_ms = round(time.time() * 1000)
    if delay and start_at:
        raise UsageError("only one of --delay and --start-at can be given")
    if delay:
        start_ms = now_ms + round(min(parse_time(delay, "--delay"), 1e9) * 1000)
    elif start_at:
        start_ms = parse_moment(start_at, "--start-at")
        if start_ms < now_ms:
            raise UsageError(f"{start_at} has passed", "--start-at", "name a moment to come")
    else:
        return None
    if start_ms > now_ms + LATEST_START_S * 1000:
        raise UsageError("is more than a day ahead", "--delay" if delay else "--start-at")
    return start_ms


def carry_out(
    plan: list[Injection],
    start_ms: int | None,
    log: str,
    json: str | None,
    force: bool,
    about: dict[str, Any],
) -> None:
    """Carry out a plan, log it, print what was done, and set the exit code.

    Raises
    ------
    IqcarError
        If nothing could be injected.
    """
    from iqcar.apps.cli.writing import check_writable, write_result
    from iqcar.base.files.json_text import json_bytes
    from iqcar.base.formatting import printable
    from iqcar.lab.inject.injection_log import append, check_log, one_line
    from iqcar.lab.inject.plan import check_room
    from iqcar.lab.inject.run_plan import run, stopping

    check_writable(json, force)
    check_room(plan)
    if log:
        check_log(log)

    with stopping() as stop, _progress(plan) as (progress, say):

        def tell(record: InjectionRecord) -> None:
            if log:
                append(log, record)
            if record.event == "end" and json != "-":
                say(printable(one_line(record)))

        done = run(plan, start_ms=start_ms, tell=tell, progress=progress, stop=stop)
    if json:
        result = {"iqcar_version": __version__, **about, "injections": done}
        write_result(json, json_bytes(result, indent=2) + b"\n")
    if log and done:
        typer.echo(f"Wrote {log} ({len(done)} injections)", err=True)
    failed = [record for record in done if record.error]
    if stop.signal:
        typer.echo(f"iqcar: stopped by {stop.name}", err=True)
        raise typer.Exit(SIGNAL_EXIT + stop.signal)
    if failed and len(failed) == len(done):
        raise IqcarError(f"nothing could be injected; the first error: {failed[0].error}")
    if failed:
        typer.echo(f"iqcar: {len(failed)} of {len(done)} injections failed", err=True)
        raise typer.Exit(ExitCode.PARTIAL)


@contextmanager
def _progress(
    plan: list[Injection],
) -> Iterator[tuple[Callable[[float], None], Callable[[str], None]]]:
    """Show progress on standard error if it is a terminal; yield it and a function to print."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda seconds: None, typer.echo
        return
    end_s = max((injection.until_ms for injection in plan), default=0) / 1000
    with console.status("starting") as status:

        def show(seconds: float) -> None:
            ms = seconds * 1000
            now = [i for i in plan if i.after_ms <= ms < i.until_ms]
            words = ", ".join(f"{i.anomaly} on {i.host}" for i in now) or "quiet"
            if seconds < 0:
                words = f"begins in {-seconds:.0f} s"
            status.update(f"{words}; {max(0.0, end_s - max(0.0, seconds)):.0f} s to go")

        def say(line: str) -> None:
            status.stop()  # else the line would start after the status text
            typer.echo(line)
            status.start()

        yield show, say
