"""``iqcar inject``: load a host on purpose, within bounds, and log what was injected when."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from iqcar.apps.cli import options
from iqcar.apps.cli.inject_schedule import schedule
from iqcar.apps.cli.run_injection import Common, inject_one
from iqcar.lab.inject.anomalies import Anomaly

app = typer.Typer(
    no_args_is_help=True,
    help="Load this host on purpose, for a bounded time, and log what was done when: the ground "
    "truth to test a diagnosis with. Everything ends at its time, with Ctrl-C or SIGTERM, and when "
    "this command is killed; nothing is left on disk.",
)

For = Annotated[str, typer.Option("--for", metavar="TIME", help="How long: 20s, 2m; at most 1h.")]
Processes = Annotated[
    int,
    typer.Option(help="How many processes (network: pairs). 0: as many as the anomaly is made of."),
]
Cores = Annotated[
    str, typer.Option(metavar="LIST", help="Cores they may run on, such as 0,2. Default: any.")
]
Host = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="The host's name as Spark knows it, for the log. Default: its own."
    ),
]
Delay = Annotated[str, typer.Option(metavar="TIME", help="Wait this long first.")]
StartAt = Annotated[
    str,
    typer.Option(
        metavar="MOMENT",
        help="Start at this moment: 2026-05-01T12:00:00 (local, or with Z), or epoch ms.",
    ),
]
Log = Annotated[
    str, typer.Option(metavar="FILE", help="Append what was done as JSON lines: the ground truth.")
]
Rate = Annotated[
    str, typer.Option(metavar="SIZE", help="At most this much per second, over all: 50MB.")
]


@app.command()
def cpu(
    for_: For,
    share: Annotated[
        float, typer.Option(help="Share of the time in which each process wants a core.")
    ] = 1.0,
    processes: Processes = 0,
    cores: Cores = "",
    host: Host = "",
    delay: Delay = "",
    start_at: StartAt = "",
    log: Log = "",
    json: options.JsonFile = None,
    force: options.Force = False,
) -> None:
    """Compute, in one process for each core.

    Example: iqcar inject cpu --for 20s --cores 0 --host 127.0.0.2 --log truth.jsonl
    """
    common = Common(
        for_=for_, processes=processes, cores=cores, host=host, delay=delay, start_at=start_at,
        log=log, json=json, force=force,
    )  # fmt: skip
    inject_one(_anomaly("cpu"), {"share": share}, common)


@app.command()
def io(
    for_: For,
    dir_: Annotated[
        str,
        typer.Option(
            "--dir", metavar="DIR", help="Folder on the disk to load. Default: for temporary files."
        ),
    ] = "",
    size: Annotated[
        str, typer.Option(metavar="SIZE", help="Bytes on disk at most, over all processes.")
    ] = "256MB",
    read_share: Annotated[
        float, typer.Option(help="Share of 1 MB blocks that are read instead of written.")
    ] = 0.0,
    rate: Rate = "",
    processes: Processes = 0,
    cores: Cores = "",
    host: Host = "",
    delay: Delay = "",
    start_at: StartAt = "",
    log: Log = "",
    json: options.JsonFile = None,
    force: options.Force = False,
) -> None:
    """Write to a disk past the page cache, in eight processes.

    Takes at most half of the free space, and gives it back whatever happens.

    Example: iqcar inject io --for 20s --dir /data --size 1GB --log truth.jsonl
    """
    from iqcar.lab.inject.parsing import parse_size

    common = Common(
        for_=for_, processes=processes, cores=cores, host=host, delay=delay, start_at=start_at,
        log=log, json=json, force=force,
    )  # fmt: skip
    settings: dict[str, Any] = {
        "folder": dir_,
        "size_bytes": parse_size(size, "--size"),
        "read_share": read_share,
    }
    inject_one(_anomaly("io"), settings | _rate(rate), common)


@app.command()
def network(
    for_: For,
    listen: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Loopback address of the servers.")
    ] = "127.0.0.1",
    source: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Loopback address of the clients.")
    ] = "127.0.0.1",
    message: Annotated[
        str, typer.Option(metavar="SIZE", help="Bytes of a message and of its reply.")
    ] = "64KB",
    rate: Rate = "",
    processes: Processes = 0,
    cores: Cores = "",
    host: Host = "",
    delay: Delay = "",
    start_at: StartAt = "",
    log: Log = "",
    json: options.JsonFile = None,
    force: options.Force = False,
) -> None:
    """Send bytes to and fro over loopback, in pairs of processes; nothing leaves this host.

    Bytes over loopback cost processor time too: --rate limits both.

    Example: iqcar inject network --for 20s --listen 127.0.0.2 --source 127.0.0.3 --rate 100MB
    """
    from iqcar.lab.inject.parsing import parse_size

    common = Common(
        for_=for_, processes=processes, cores=cores, host=host, delay=delay, start_at=start_at,
        log=log, json=json, force=force,
    )  # fmt: skip
    settings: dict[str, Any] = {
        "listen": listen,
        "source": source,
        "message_bytes": parse_size(message, "--message"),
    }
    inject_one(_anomaly("network"), settings | _rate(rate), common)


@app.command()
def memory(
    for_: For,
    size: Annotated[
        str, typer.Option(metavar="SIZE", help="Bytes held, over all processes.")
    ] = "512MB",
    processes: Processes = 0,
    cores: Cores = "",
    host: Host = "",
    delay: Delay = "",
    start_at: StartAt = "",
    log: Log = "",
    json: options.JsonFile = None,
    force: options.Force = False,
) -> None:
    """Hold memory and keep walking through it.

    Takes at most 80 % of what is available, and stops growing when the host gets tight.

    Example: iqcar inject memory --for 20s --size 4GB --log truth.jsonl
    """
    from iqcar.lab.inject.parsing import parse_size

    common = Common(
        for_=for_, processes=processes, cores=cores, host=host, delay=delay, start_at=start_at,
        log=log, json=json, force=force,
    )  # fmt: skip
    inject_one(_anomaly("memory"), {"size_bytes": parse_size(size, "--size")}, common)


@app.command()
def ordered() -> None:
    """Carry out one injection that standard input orders, until that ends.

    The order is a line of JSON, as an injection in a plan of `schedule`. Each record of the log is
    a line of standard output. `iqcar experiment` starts this on other hosts; where the connection
    is lost, the input ends, and the injection with it.

    Example: ssh node2 iqcar inject ordered
    """
    from iqcar.apps.cli.run_injection import SIGNAL_EXIT, check_system
    from iqcar.lab.inject.run_plan import carry_out_order

    check_system()
    if stopped_by := carry_out_order():
        raise typer.Exit(SIGNAL_EXIT + stopped_by)


app.command()(schedule)


def _anomaly(name: str) -> Anomaly:
    from iqcar.lab.inject.anomalies import Anomaly

    return Anomaly(name)


def _rate(text: str) -> dict[str, Any]:
    from iqcar.lab.inject.parsing import parse_size

    return {"rate_bytes_per_s": float(parse_size(text, "--rate"))} if text else {}
