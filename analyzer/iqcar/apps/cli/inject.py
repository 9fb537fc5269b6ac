"""``iqcar inject``: load a host on purpose, within bounds, and log what was injected when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from iqcar.apps.cli.command import Result, command
from iqcar.apps.cli.run_injection import SIGNAL_EXIT, Carrying, One, check_system, length_ms
from iqcar.errors import UsageError
from iqcar.lab.inject.anomalies import Anomaly, Pattern

if TYPE_CHECKING:
    from iqcar.lab.inject.plan import Injection

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

    Example: iqcar inject cpu --for 20s --cores 0 --host 127.0.0.2 --log truth.jsonl

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

    Example: iqcar inject io --for 20s --dir /data --size 1GB --log truth.jsonl

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
    return one.inject(Anomaly.IO, settings | _rate(rate, "--rate"))


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

    Example: iqcar inject network --for 20s --listen 127.0.0.2 --source 127.0.0.3 --rate 100MB

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
    return one.inject(Anomaly.NETWORK, settings | _rate(rate, "--rate"))


@inject.command()
@command()
def memory(*, one: One, size: str = "512MB") -> Result:
    """Hold memory and keep walking through it.

    Takes at most 80 % of what is available, and stops growing when the host gets tight.

    Example: iqcar inject memory --for 20s --size 4GB --log truth.jsonl

    Parameters
    ----------
    size : SIZE
        Bytes held, over all processes.
    """
    return one.inject(Anomaly.MEMORY, {"size_bytes": _bytes(size, "--size")})


@inject.command()
def ordered() -> None:
    """Carry out one injection that standard input orders, until that ends.

    The order is a line of JSON, as an injection in a plan of `schedule`. Each record of the log is
    a line of standard output. `iqcar experiment` starts this on other hosts; where the connection
    is lost, the input ends, and the injection with it.

    Example: ssh node2 iqcar inject ordered
    """
    from iqcar.lab.inject.run_plan import carry_out_order

    check_system()
    if stopped_by := carry_out_order():
        raise typer.Exit(SIGNAL_EXIT + stopped_by)


@inject.command()
@command()
def schedule(
    *,
    hosts: str = "",
    kinds: str = "cpu,io,network",
    for_: str = "120s",
    mean_length: str = "20s",
    mean_gap: str = "",
    pattern: Pattern = Pattern.MULTI_NODE,
    seed: int = 0,
    plan: str = "",
    processes: int = 0,
    cpu_share: float = 1.0,
    io_size: str = "256MB",
    io_rate: str = "",
    network_rate: str = "",
    memory_size: str = "512MB",
    dry_run: bool = False,
    carrying: Carrying,
) -> Result:
    """Inject anomalies at random times on several hosts, which are parts of this machine.

    Made for a standalone cluster whose workers listen on 127.0.0.2, 127.0.0.3, … and are each
    pinned to cores of their own.

    Example: iqcar inject schedule --seed 7 --hosts '127.0.0.2=0;127.0.0.3=1' --log truth.jsonl

    Parameters
    ----------
    hosts : LIST
        Hosts and what of this machine stands for each: HOST=CORES:DIR, with semicolons between:
        '127.0.0.2=0:/data/a;127.0.0.3=1'. Cores and DIR may be left out.
    kinds : LIST
        Anomalies to draw from: cpu,io,network,memory.
    for_ : TIME
        How long the whole schedule lasts.
    mean_length : TIME
        Mean length of an injection.
    mean_gap : TIME
        Mean quiet time before each. Default: twice the mean length.
    pattern
        Where injections may meet.
    seed
        The same seed gives the same schedule.
    plan : FILE
        Carry out this plan instead of drawing one: what --dry-run --json wrote, or one written by
        hand.
    processes
        Processes of each injection. 0: as the anomaly has by itself.
    cpu_share
        Share of the time in which a cpu process wants a core.
    io_size : SIZE
        Bytes on disk of an io injection at most.
    io_rate : SIZE
        Bytes per second of an io injection at most.
    network_rate : SIZE
        Bytes per second of a network injection at most.
    memory_size : SIZE
        Bytes that a memory injection holds.
    dry_run
        Print the schedule and do nothing.
    """
    from iqcar.lab.inject.plan import read_plan
    from iqcar.lab.inject.random_plans import parse_hosts, random_plan

    check_system()
    if bool(plan) == bool(hosts):
        raise UsageError("give either --hosts to draw a schedule, or --plan")
    about: dict[str, Any] = {"plan": plan}
    if plan:
        injections = read_plan(plan)
    else:
        strength: dict[Anomaly, dict[str, Any]] = {
            Anomaly.CPU: {"share": cpu_share},
            Anomaly.IO: {
                "size_bytes": _bytes(io_size, "--io-size"), **_rate(io_rate, "--io-rate")
            },
            Anomaly.NETWORK: _rate(network_rate, "--network-rate"),
            Anomaly.MEMORY: {"size_bytes": _bytes(memory_size, "--memory-size")},
        }  # fmt: skip
        injections = random_plan(
            seed,
            parse_hosts(hosts),
            _anomalies(kinds),
            for_ms=length_ms(for_, "--for"),
            mean_length_ms=length_ms(mean_length, "--mean-length"),
            mean_gap_ms=length_ms(mean_gap, "--mean-gap") if mean_gap else None,
            pattern=pattern,
            strength={each: {**given, "processes": processes} for each, given in strength.items()},
        )
        about = {"seed": seed, "pattern": str(pattern)}
    if dry_run:
        return _drawn(injections, about)
    if not injections:
        raise UsageError("the seed gives no injection in this time", "--for", "make it longer")
    return carrying.carry_out(injections, about)


def _anomalies(text: str) -> list[Anomaly]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    wrong = [word for word in words if word not in set(Anomaly)]
    if wrong or not words:
        what = f"{wrong[0][:40]!r} is no anomaly" if wrong else "names no anomaly"
        raise UsageError(what, "--kinds", f"take some of {','.join(Anomaly)}")
    return [Anomaly(word) for word in words]


def _drawn(plan: list[Injection], about: dict[str, Any]) -> Result:
    """Print a plan, or write it in the format of `--plan`."""
    from iqcar.base.files.json_text import json_bytes

    def show() -> None:
        width = max((len(injection.host) for injection in plan), default=0)
        for i in plan:
            times = f"{i.after_ms / 1000:8.1f} s to {i.until_ms / 1000:8.1f} s"
            typer.echo(f"{times}  {i.host:<{width}}  {i.anomaly}")

    content = {**about, "injections": [injection.as_json() for injection in plan]}
    return Result(show, lambda: json_bytes(content, indent=2) + b"\n")


def _bytes(text: str, option: str) -> int:
    from iqcar.base.units import parse_size

    return parse_size(text, option)


def _rate(text: str, option: str) -> dict[str, Any]:
    return {"rate_bytes_per_s": float(_bytes(text, option))} if text else {}
