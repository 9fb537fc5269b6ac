"""``iqcar whatif``: what would have happened if something had been different."""

from __future__ import annotations

from dataclasses import asdict, make_dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from iqcar.apps.cli.command import Result, command
from iqcar.enums import QueryBy
from iqcar.replay.whatif.question import parse_request
from iqcar.replay.whatif.question_parts import PARTS, SEVERAL, Part, PartKind, option_of


def _field(name: str, part: Part) -> tuple[str, Any, Any]:
    several, flag = part.kind in SEVERAL, part.kind is PartKind.FLAG
    kind: Any = bool if flag else list[str] | None if several else str | None
    text = part.help + " Several times." * several
    option = typer.Option(option_of(name), metavar=part.in_help or None, help=text)
    return name, Annotated[kind, option], False if flag else None


if TYPE_CHECKING:
    Asked = Any
else:
    Asked = make_dataclass("Asked", [_field(*row) for row in PARTS.items()])


@command("What if something had been different.")
def whatif(
    paths: list[str],
    *,
    asked: Asked,
    curves: str = "",
    recall: str = "",
    top: int = 10,
    query_by: QueryBy = QueryBy.SQL,
) -> Result:
    """Predict how long each query would have taken if something had been different.

    Several options are one joint change. The run is replayed with shared disks, networks,
    processors and slots, fitted to the logs; how well that reproduces the run as it was is printed
    first. Queries are named by id, name or fingerprint.

    Example: iqcar whatif spark-events/ --remove etl_heavy --slots +8

    Parameters
    ----------
    curves : FILE
        Own rates that `iqcar-lab experiment` measured.
    top : 1..1000
        How many queries to show.
    """
    from iqcar.apps.cli.reading import counting, curves_from, read_for, recall_from, working
    from iqcar.diagnosis import WhatIfs
    from iqcar.pipeline import diagnose
    from iqcar.show.json.whatif import whatif_to_json
    from iqcar.show.terminal.whatif import print_plan, print_removal_blame, print_what_if

    measured = curves_from(curves)
    wanted = parse_request(**asdict(asked))
    tables = read_for(paths, query_by)
    recalled = recall_from(recall, tables)
    found, planned, blamed = None, None, None
    with working("fitting what tasks need"):
        diagnosis = diagnose(
            tables, query_by=query_by, rules=False, recalled=recalled, curves=measured
        )
        diagnosis = replace(diagnosis, curves=tuple(measured.curves) if measured else ())
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

    def show() -> None:
        if found is not None:
            print_what_if(found, top)
        if planned is not None:
            print_plan(planned)
        if blamed is not None:
            print_removal_blame(blamed, top)

    content = partial(whatif_to_json, found, planned, blamed)
    return Result(show, content, tables=[diagnosis.tables])
