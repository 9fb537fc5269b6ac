"""``iqcar rules compile``: compile a rules file to files that Spark and the plugin load."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from iqcar.apps.cli import options

ALLOCATION_FILE, POOLS_FILE, HOW_TO_FILE = "fairscheduler.xml", "pools.json", "HOW_TO.md"

MOST = 2**31 - 1
"""Spark's counts are 32-bit integers."""


def compile_(
    rules: Annotated[
        str, typer.Argument(metavar="RULES", help="A rules file (`iqcar analyze --rules`).")
    ],
    out: Annotated[
        str,
        typer.Option(
            metavar="DIR",
            help="Folder to write to; made if its parent is there. Default: RULES without its "
            "suffix, with -pools.",
        ),
    ] = "",
    json: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|-",
            help="Write the pools as JSON too, as in pools.json (`iqcar schema rules`).",
        ),
    ] = None,
    slots: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MOST,
            help="Tasks that can run at once for sure, for minShare. Default: as recorded.",
        ),
    ] = None,
    running: Annotated[
        int | None,
        typer.Option(
            min=1, max=MOST, help="Queries that run at once at most. Default: as recorded."
        ),
    ] = None,
    all_rules: options.AllRules = False,
    force: options.Force = False,
) -> None:
    """Compile rules to FAIR pools: fairscheduler.xml, pools.json for the plugin, and how to.

    Rules are compiled again, with any edits to the file. HOW_TO.md has lines to copy for
    spark-submit, PySpark, Scala, SQL, the Thrift server, notebooks and Spark Connect.

    Example: iqcar rules compile rules.json --out pools/
    """
    from iqcar.apps.cli.writing import write_result
    from iqcar.logs.attach.spark_conf import spark_url
    from iqcar.rules.compile_pools import compile_rules
    from iqcar.rules.rule_file import allocation_xml, dump_pools, load_rules_file
    from iqcar.rules.rule_sentences import how_to
    from iqcar.show.terminal.rules_compile import print_plan

    file = load_rules_file(rules)
    folder = Path(out) if out else Path(rules).with_name(f"{Path(rules).stem}-pools")
    _check_folder(folder, json, force)
    known = file.recorded
    plan = compile_rules(
        file.rules,
        slots or known.slots,
        running or known.running,
        known.pools,
        all_rules=all_rules,
    )
    page = how_to(
        plan,
        file.rules,
        Path(rules).name,
        spark_url(str(folder / POOLS_FILE)),
        spark_url(str(folder / ALLOCATION_FILE), always=True),
    )
    if json != "-":
        print_plan(plan, [rule.id for rule in file.rules if rule.harms and all_rules])
    _make(folder)
    write_result(str(folder / ALLOCATION_FILE), allocation_xml(plan.pools))
    write_result(str(folder / POOLS_FILE), dump_pools(plan))
    write_result(str(folder / HOW_TO_FILE), page.encode())
    if json is not None:
        write_result(json, dump_pools(plan))


def _check_folder(folder: Path, json: str | None, force: bool) -> None:
    """Check, before anything is written, that all files can be written."""
    from iqcar.apps.cli.writing import check_writable
    from iqcar.errors import UsageError

    check_writable(json, force)
    if folder.is_dir():
        for name in (ALLOCATION_FILE, POOLS_FILE, HOW_TO_FILE):
            check_writable(str(folder / name), force)
    elif folder.exists():
        raise UsageError("is a file", str(folder), "name a folder with --out")
    elif not folder.absolute().parent.is_dir():
        raise UsageError("its parent folder does not exist", str(folder), "make it first")


def _make(folder: Path) -> None:
    from iqcar.errors import IqcarError

    try:
        folder.mkdir(exist_ok=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", "") or str(error)
        raise IqcarError(f"cannot be made: {reason}", str(folder)) from error
