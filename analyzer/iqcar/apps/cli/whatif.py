"""``iqcar whatif``: what would have happened if something had been different."""

from __future__ import annotations

from typing import Annotated

import typer

from iqcar.apps.cli import options
from iqcar.enums import QueryBy

Names = list[str] | None


def _several(flag: str, metavar: str, text: str) -> object:
    return typer.Option(flag, metavar=metavar, help=f"{text} Several times.")


def whatif(
    paths: options.Paths,
    remove: Annotated[Names, _several("--remove", "Q", "Without this query.")] = None,
    start: Annotated[
        Names, _several("--start", "Q=+10m", "Start a query later (or -10m earlier).")
    ] = None,
    cap: Annotated[
        Names, _several("--cap", "Q=8", "At most so many tasks of a query at once.")
    ] = None,
    slots: Annotated[
        str | None,
        typer.Option(metavar="+8|24", help="Slots more or fewer, or so many in all."),
    ] = None,
    executors: Annotated[
        str | None, typer.Option(metavar="N", help="So many executors of the usual size.")
    ] = None,
    hosts: Annotated[
        str | None, typer.Option(metavar="+2", help="Hosts more or fewer, with their slots.")
    ] = None,
    host_loss: Annotated[
        Names, _several("--host-loss", "HOST", "Without this host from the start.")
    ] = None,
    disk: Annotated[
        str | None, typer.Option(metavar="2x", help="Capacity of every host's disk.")
    ] = None,
    network: Annotated[
        str | None, typer.Option(metavar="2x", help="Capacity of every host's network.")
    ] = None,
    cpu: Annotated[
        str | None, typer.Option(metavar="2x", help="Number of every host's processors.")
    ] = None,
    host_cores: Annotated[
        str | None, typer.Option("--host-cores", metavar="16", help="Processors of every host.")
    ] = None,
    pool: Annotated[
        Names, _several("--pool", "Q=3", "A FAIR pool of its own with this weight.")
    ] = None,
    mode: Annotated[
        str | None, typer.Option(metavar="FAIR|FIFO", help="Scheduler mode of all applications.")
    ] = None,
    partitions: Annotated[
        Names, _several("--partitions", "Q=400", "Tasks of stages that read a shuffle.")
    ] = None,
    scale: Annotated[Names, _several("--scale", "Q=2x", "Work of a query's tasks.")] = None,
    no_skew: Annotated[
        Names, _several("--no-skew", "Q", "Equal work for all tasks of a stage.")
    ] = None,
    no_gc: Annotated[bool, typer.Option("--no-gc", help="No garbage collection.")] = False,
    starts: Annotated[
        str | None,
        typer.Option(
            metavar="recorded|chained",
            help="Queries start when they did, or after the one that they waited for (default).",
        ),
    ] = None,
    plan: Annotated[
        str | None,
        typer.Option(
            metavar="executors=4..64",
            help="Ask about each number of executors (or slots) instead: what it takes and costs.",
        ),
    ] = None,
    price: Annotated[
        str | None,
        typer.Option(metavar="0.4/h", help="Price of one executor (or slot) for --plan."),
    ] = None,
    blame: Annotated[
        str | None,
        typer.Option(
            metavar="Q",
            help="Ask who made this query wait, by replays without the others (Shapley values).",
        ),
    ] = None,
    curves: Annotated[
        str, typer.Option(metavar="FILE", help="Own rates that `iqcar experiment` measured.")
    ] = "",
    top: Annotated[int, typer.Option(min=1, max=1000, help="How many queries to show.")] = 10,
    json: options.JsonFile = None,
    query_by: options.Queries = QueryBy.SQL,
    force: options.Force = False,
) -> None:
    """Predict how long each query would have taken if something had been different.

    Several options are one joint change. The run is replayed with shared disks, networks,
    processors and slots, fitted to the logs; how well that reproduces the run as it was is printed
    first. Queries are named by id, name or fingerprint.

    Example: iqcar whatif spark-events/ --remove etl_heavy --slots +8
    """
    from dataclasses import replace

    from iqcar.apps.cli.reading import counting, exit_code, read_for, working
    from iqcar.apps.cli.writing import check_writable, write_result
    from iqcar.diagnosis import WhatIfs
    from iqcar.pipeline import diagnose
    from iqcar.replay.whatif.curves import read_curves
    from iqcar.replay.whatif.request import parse_request
    from iqcar.show.json.whatif import whatif_to_json
    from iqcar.show.terminal.whatif import print_plan, print_removal_blame, print_what_if

    check_writable(json, force)
    measured = tuple(read_curves(curves)) if curves else ()
    wanted = parse_request(
        plan=plan,
        price=price,
        blame=blame,
        remove=remove or (),
        start=start or (),
        cap=cap or (),
        slots=slots,
        executors=executors,
        hosts=hosts,
        host_loss=host_loss or (),
        disk=disk,
        network=network,
        cpu=cpu,
        host_cores=host_cores,
        pool=pool or (),
        mode=mode,
        partitions=partitions or (),
        scale=scale or (),
        no_skew=no_skew or (),
        no_gc=no_gc,
        starts=starts,
    )
    tables = read_for(paths, query_by)
    found, planned, blamed = None, None, None
    with working("fitting what tasks need"):
        diagnosis = diagnose(tables, query_by=query_by, rules=False)
        diagnosis = replace(diagnosis, curves=measured)
        asked = WhatIfs(diagnosis)
        _ = asked.model
    if wanted.question:
        with counting("replaying") as progress:
            found = asked.answer(wanted.question, progress)
    if wanted.plan:
        with counting("replaying") as progress:
            planned = asked.plan(**wanted.plan, progress=progress)
    if wanted.blame:
        with counting("replaying") as progress:
            blamed = asked.blame_by_removal(wanted.blame, progress)
    if json != "-":
        if found is not None:
            print_what_if(found, top)
        if planned is not None:
            print_plan(planned)
        if blamed is not None:
            print_removal_blame(blamed, top)
    if json is not None:
        write_result(json, whatif_to_json(found, planned, blamed))
    raise typer.Exit(exit_code(diagnosis.tables))
