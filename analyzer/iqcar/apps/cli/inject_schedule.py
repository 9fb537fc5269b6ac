"""``iqcar inject schedule``: inject anomalies at random times on several hosts, from a seed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from iqcar.apps.cli import options
from iqcar.lab.inject.anomalies import Anomaly, Pattern

if TYPE_CHECKING:
    from iqcar.lab.inject.plan import Injection


def schedule(
    hosts: Annotated[
        str,
        typer.Option(
            metavar="LIST",
            help="Hosts and what of this machine stands for each: HOST=CORES:DIR, with semicolons "
            "between: '127.0.0.2=0:/data/a;127.0.0.3=1'. Cores and DIR may be left out.",
        ),
    ] = "",
    kinds: Annotated[
        str, typer.Option(metavar="LIST", help="Anomalies to draw from: cpu,io,network,memory.")
    ] = "cpu,io,network",
    for_: Annotated[
        str, typer.Option("--for", metavar="TIME", help="How long the whole schedule lasts.")
    ] = "120s",
    mean_length: Annotated[
        str, typer.Option(metavar="TIME", help="Mean length of an injection.")
    ] = "20s",
    mean_gap: Annotated[
        str,
        typer.Option(
            metavar="TIME", help="Mean quiet time before each. Default: twice the mean length."
        ),
    ] = "",
    pattern: Annotated[
        Pattern,
        typer.Option(
            help="Where injections may meet. "
            + " ".join(f"{p.value}: {p.sentence[0].lower()}{p.sentence[1:]}" for p in Pattern)
        ),
    ] = Pattern.MULTI_NODE,
    seed: Annotated[int, typer.Option(help="The same seed gives the same schedule.")] = 0,
    plan: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help="Carry out this plan instead of drawing one: what --dry-run --json wrote, or one "
            "written by hand.",
        ),
    ] = "",
    processes: Annotated[
        int, typer.Option(help="Processes of each injection. 0: as the anomaly has by itself.")
    ] = 0,
    cpu_share: Annotated[
        float, typer.Option(help="Share of the time in which a cpu process wants a core.")
    ] = 1.0,
    io_size: Annotated[
        str, typer.Option(metavar="SIZE", help="Bytes on disk of an io injection at most.")
    ] = "256MB",
    io_rate: Annotated[
        str, typer.Option(metavar="SIZE", help="Bytes per second of an io injection at most.")
    ] = "",
    network_rate: Annotated[
        str, typer.Option(metavar="SIZE", help="Bytes per second of a network injection at most.")
    ] = "",
    memory_size: Annotated[
        str, typer.Option(metavar="SIZE", help="Bytes that a memory injection holds.")
    ] = "512MB",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the schedule and do nothing.")
    ] = False,
    delay: Annotated[str, typer.Option(metavar="TIME", help="Wait this long first.")] = "",
    start_at: Annotated[
        str,
        typer.Option(
            metavar="MOMENT",
            help="Start at this moment: 2026-05-01T12:00:00 (local, or with Z), or epoch ms.",
        ),
    ] = "",
    log: Annotated[
        str,
        typer.Option(metavar="FILE", help="Append what was done as JSON lines: the ground truth."),
    ] = "",
    json: options.JsonFile = None,
    force: options.Force = False,
) -> None:
    """Inject anomalies at random times on several hosts, which are parts of this machine.

    Made for a standalone cluster whose workers listen on 127.0.0.2, 127.0.0.3, … and are each
    pinned to cores of their own.

    Example: iqcar inject schedule --seed 7 --hosts '127.0.0.2=0;127.0.0.3=1' --log truth.jsonl
    """
    from iqcar.apps.cli.run_injection import carry_out, check_system, moment
    from iqcar.errors import UsageError
    from iqcar.lab.inject.anomalies import Anomaly

    check_system()
    from iqcar.lab.inject.parsing import parse_size
    from iqcar.lab.inject.plan import read_plan
    from iqcar.lab.inject.random_plans import parse_hosts, random_plan
    from iqcar.logs.attach.host_sampler import parse_time

    def ms(text: str, option: str) -> int:
        return round(min(parse_time(text, option), 1e9) * 1000)

    if bool(plan) == bool(hosts):
        raise UsageError("give either --hosts to draw a schedule, or --plan")
    about: dict[str, Any] = {"plan": plan}
    if plan:
        injections = read_plan(plan)
    else:
        strength: dict[Anomaly, dict[str, Any]] = {
            Anomaly.CPU: {"share": cpu_share},
            Anomaly.IO: {"size_bytes": parse_size(io_size, "--io-size")},
            Anomaly.NETWORK: {},
            Anomaly.MEMORY: {"size_bytes": parse_size(memory_size, "--memory-size")},
        }
        rates = ((Anomaly.IO, io_rate, "--io-rate"),)
        for anomaly, rate, option in (*rates, (Anomaly.NETWORK, network_rate, "--network-rate")):
            if rate:
                strength[anomaly]["rate_bytes_per_s"] = float(parse_size(rate, option))
        for settings in strength.values():
            settings["processes"] = processes
        injections = random_plan(
            seed, parse_hosts(hosts), _anomalies(kinds), for_ms=ms(for_, "--for"),
            mean_length_ms=ms(mean_length, "--mean-length"),
            mean_gap_ms=ms(mean_gap, "--mean-gap") if mean_gap else None, pattern=pattern,
            strength=strength,
        )  # fmt: skip
        about = {"seed": seed, "pattern": str(pattern)}
    if dry_run:
        _show(injections, about, json, force)
        return
    if not injections:
        raise UsageError("the seed gives no injection in this time", "--for", "make it longer")
    carry_out(injections, moment(delay, start_at), log, json=json, force=force, about=about)


def _anomalies(text: str) -> list[Anomaly]:
    from iqcar.errors import UsageError
    from iqcar.lab.inject.anomalies import Anomaly

    words = [word.strip() for word in text.split(",") if word.strip()]
    wrong = [word for word in words if word not in set(Anomaly)]
    if wrong or not words:
        what = f"{wrong[0][:40]!r} is no anomaly" if wrong else "names no anomaly"
        raise UsageError(what, "--kinds", f"take some of {','.join(Anomaly)}")
    return [Anomaly(word) for word in words]


def _show(plan: list[Injection], about: dict[str, Any], json: str | None, force: bool) -> None:
    """Print a plan, or write it in the format of `--plan`."""
    from iqcar.apps.cli.writing import check_writable, write_result
    from iqcar.base.files.json_text import json_bytes

    if json is not None:
        check_writable(json, force)
        content = {**about, "injections": [injection.as_json() for injection in plan]}
        write_result(json, json_bytes(content, indent=2) + b"\n")
    if json == "-":
        return
    width = max((len(injection.host) for injection in plan), default=0)
    for i in plan:
        times = f"{i.after_ms / 1000:8.1f} s to {i.until_ms / 1000:8.1f} s"
        typer.echo(f"{times}  {i.host:<{width}}  {i.anomaly}")
