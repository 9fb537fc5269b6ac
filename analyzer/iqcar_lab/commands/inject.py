"""``iqcar-lab inject``: load a host on purpose, within bounds, and log what was injected when."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from iqcar.apps.cli.command import Result, command, explain_line
from iqcar.errors import ExitCode, IqcarError
from iqcar.version import __version__
from iqcar_lab.inject.anomalies import Anomaly

if TYPE_CHECKING:
    from iqcar_lab.inject.plan import Injection
    from iqcar_lab.inject.run_plan import InjectionRecord, Stop

SIGNAL_EXIT = 128
"""Added to a signal's number, the exit code of a command that the signal stopped, as in shells."""


@dataclass(frozen=True, kw_only=True)
class Carrying:
    """Where it is written what was done.

    Attributes
    ----------
    log : FILE
        Append what was done as JSON lines: the ground truth.
    """

    log: str = ""
    json: str | None = None

    def carry_out(self, plan: list[Injection], about: dict[str, Any]) -> Result:
        """Carry out a plan, log it, print what was done, and say how the command ends."""
        from iqcar.base.files.json_text import json_bytes
        from iqcar_lab.inject.plan import check_room
        from iqcar_lab.inject.run_plan import append, check_log, one_line, run, stopping

        check_room(plan)
        if self.log:
            check_log(self.log)

        with stopping() as stop, _progress(plan) as (progress, say):

            def tell(record: InjectionRecord) -> None:
                if self.log:
                    append(self.log, record)
                if record.event == "end" and self.json != "-":
                    say(one_line(record))

            done = run(plan, tell=tell, progress=progress, stop=stop)
        result = {"iqcar_version": __version__, **about, "injections": done}
        return Result(
            json=lambda: json_bytes(result, indent=2) + b"\n", last=lambda: self._end(stop, done)
        )

    def _end(self, stop: Stop, done: list[InjectionRecord]) -> None:
        """Say what went wrong; raises IqcarError if nothing could be injected."""
        if self.log and done:
            typer.echo(f"Wrote {self.log} ({len(done)} injections)", err=True)
        failed = [record for record in done if record.error]
        end_if_stopped(stop)
        if failed and len(failed) == len(done):
            raise IqcarError(f"nothing could be injected; the first error: {failed[0].error}")
        if failed:
            typer.echo(f"iqcar-lab: {len(failed)} of {len(done)} injections failed", err=True)
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
        from iqcar.base.units import parse_time
        from iqcar_lab.inject.plan import Injection, parse_cores, settings_of

        cores = parse_cores(self.cores, "--cores")
        values = {"processes": self.processes, "cores": cores, **settings}
        host = self.host or socket.gethostname()
        length = round(1000 * parse_time(self.for_, "--for"))
        return self.carry_out([Injection(host, 0, length, settings_of(anomaly, values))], {})


def end_if_stopped(stop: Stop) -> None:
    """End the command as shells do if a signal stopped it."""
    if stop.signal:
        typer.echo(f"iqcar-lab: stopped by {stop.name}", err=True)
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
            line.update(f"{words}; {max(0.0, end_s - max(0.0, seconds)):.0f} s to go")

        def say(text: str) -> None:
            line.stop()  # else the line would start after the status text
            explain_line(text, err=False)
            line.start()

        yield show, say


inject = typer.Typer(
    name="inject",
    no_args_is_help=True,
    help="Load this host on purpose, for a bounded time, and log what was done when: the ground "
    "truth to test a diagnosis with. Everything ends at its time, with Ctrl-C or SIGTERM, and when "
    "this command is killed; nothing is left on disk.",
    short_help="Load this host on purpose, and log it.",
)


@inject.command()
@command()
def cpu(*, one: One, share: float = 1.0) -> Result:
    """Compute, in one process for each core.

    Example: iqcar-lab inject cpu --for 20s --cores 0 --host 127.0.0.2 --log truth.jsonl

    Parameters
    ----------
    share
        Share of the time in which each process wants a core.
    """
    return one.inject(Anomaly.CPU, {"share": share})


@inject.command()
@command()
def io(
    *, one: One, dir_: str = "", size: str = "256MB", read_share: float = 0.0, rate: str = ""
) -> Result:
    """Write to a disk past the page cache, in eight processes.

    Takes at most half of the free space, and gives it back whatever happens.

    Example: iqcar-lab inject io --for 20s --dir /data --size 1GB --log truth.jsonl

    Parameters
    ----------
    dir_ : DIR
        Folder on the disk to load. Default: for temporary files.
    size : SIZE
        Bytes on disk at most, over all processes.
    read_share
        Share of 1 MB blocks that are read instead of written.
    rate : SIZE
        At most this much per second, over all: 50MB.
    """
    settings = {"folder": dir_, "size_bytes": _bytes(size, "--size"), "read_share": read_share}
    return one.inject(Anomaly.IO, settings | _rate(rate))


@inject.command()
@command()
def network(
    *,
    one: One,
    listen: str = "127.0.0.1",
    source: str = "127.0.0.1",
    message: str = "64KB",
    rate: str = "",
) -> Result:
    """Send bytes to and fro over loopback, in pairs of processes; nothing leaves this host.

    Bytes over loopback cost processor time too: --rate limits both.

    Example: iqcar-lab inject network --for 20s --listen 127.0.0.2 --source 127.0.0.3 --rate 100MB

    Parameters
    ----------
    listen : ADDRESS
        Loopback address of the servers.
    source : ADDRESS
        Loopback address of the clients.
    message : SIZE
        Bytes of a message and of its reply.
    rate : SIZE
        At most this much per second, over all: 50MB.
    """
    message_bytes = _bytes(message, "--message")
    settings = {"listen": listen, "source": source, "message_bytes": message_bytes}
    return one.inject(Anomaly.NETWORK, settings | _rate(rate))


@inject.command()
@command()
def memory(*, one: One, size: str = "512MB") -> Result:
    """Hold memory and keep walking through it.

    Takes at most 80 % of what is available, and stops growing when the host gets tight.

    Example: iqcar-lab inject memory --for 20s --size 4GB --log truth.jsonl

    Parameters
    ----------
    size : SIZE
        Bytes held, over all processes.
    """
    return one.inject(Anomaly.MEMORY, {"size_bytes": _bytes(size, "--size")})


@inject.command()
@command()
def schedule(*, plan: str, carrying: Carrying) -> Result:
    """Carry out a plan of anomalies on several hosts, which are parts of this machine.

    Made for a standalone cluster whose workers listen on 127.0.0.2, 127.0.0.3, … and are each
    pinned to cores of their own.

    Example: iqcar-lab inject schedule --plan plan.json --log truth.jsonl

    Parameters
    ----------
    plan : FILE
        JSON with `injections`: host, anomaly, after_ms, for_ms and settings of each.
    """
    from iqcar_lab.inject.plan import read_plan

    check_system()
    return carrying.carry_out(read_plan(plan), {"plan": plan})


def _bytes(text: str, option: str) -> int:
    from iqcar.base.units import parse_size

    return parse_size(text, option)


def _rate(text: str) -> dict[str, Any]:
    return {"rate_bytes_per_s": float(_bytes(text, "--rate"))} if text else {}
