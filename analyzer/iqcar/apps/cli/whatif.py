"""``iqcar whatif``: what would have happened if something had been different."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from iqcar.apps.cli import options
from iqcar.enums import QueryBy
from iqcar.replay.whatif.question import PARTS, SEVERAL, Part, PartKind, option_of, parse_request


def _with_parts(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command, in place of its ``asked``, an option for each part of a question."""
    signature = inspect.signature(command, eval_str=True)
    first, *others = [p for p in signature.parameters.values() if p.name != "asked"]
    others = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in others]
    parameters = [first, *(_option(*row) for row in PARTS.items()), *others]
    command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return command


def _option(name: str, part: Part) -> inspect.Parameter:
    several, flag = part.kind in SEVERAL, part.kind is PartKind.FLAG
    kind: Any = bool if flag else list[str] | None if several else str | None
    text = part.help + " Several times." * several
    option = typer.Option(option_of(name), metavar=part.metavar or None, help=text)
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        annotation=Annotated[kind, option],
        default=False if flag else None,
    )


@_with_parts
def whatif(
    paths: options.Paths,
    curves: Annotated[
        str, typer.Option(metavar="FILE", help="Own rates that `iqcar experiment` measured.")
    ] = "",
    top: Annotated[int, typer.Option(min=1, max=1000, help="How many queries to show.")] = 10,
    json: options.JsonFile = None,
    query_by: options.Queries = QueryBy.SQL,
    force: options.Force = False,
    **asked: Any,
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
    from iqcar.show.json.whatif import whatif_to_json
    from iqcar.show.terminal.whatif import print_plan, print_removal_blame, print_what_if

    check_writable(json, force)
    measured = tuple(read_curves(curves)) if curves else ()
    wanted = parse_request(**asked)
    tables = read_for(paths, query_by)
    found, planned, blamed = None, None, None
    with working("fitting what tasks need"):
        diagnosis = diagnose(tables, query_by=query_by, rules=False)
        diagnosis = replace(diagnosis, curves=measured)
        replays = WhatIfs(diagnosis)
        _ = replays.model
    if wanted.question:
        with counting("replaying") as progress:
            found = replays.answer(wanted.question, progress)
    if wanted.plan:
        with counting("replaying") as progress:
            planned = replays.plan(**wanted.plan, progress=progress)
    if wanted.blame:
        with counting("replaying") as progress:
            blamed = replays.blame_by_removal(wanted.blame, progress)
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
