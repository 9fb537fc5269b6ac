"""``iqcar rules``: compile a rules file to what Spark and the plugin load, or check its effect."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import typer

from iqcar.apps.cli.command import Result, command, make_folder, write_result
from iqcar.apps.cli.compile_queues import ClusterChoice, check_folder, compile_queues
from iqcar.enums import QueryBy
from iqcar.errors import UsageError
from iqcar.rules.queue_files import PlanTarget

rules = typer.Typer(
    name="rules",
    no_args_is_help=True,
    help="Compile the scheduler rules of a file, or check their effect.",
    short_help="Compile rules to pools; check what they did.",
)

ALLOCATION_FILE, POOLS_FILE, HOW_TO_FILE = "fairscheduler.xml", "pools.json", "HOW_TO.md"

MOST = 2**31 - 1
"""Spark's counts are 32-bit integers."""


@rules.command("compile")
@command()
def compile_(
    rules: list[str],
    *,
    for_: PlanTarget = PlanTarget.FAIR_POOLS,
    cluster: ClusterChoice,
    out: str = "",
    json: str | None = None,
    slots: int | None = None,
    running: int | None = None,
    all_rules: bool = False,
    force: bool = False,
) -> Result:
    """Compile rules to FAIR pools: fairscheduler.xml, pools.json for the plugin, and how to.

    Rules are compiled again, with any edits to the file. HOW_TO.md has lines to copy for
    spark-submit, PySpark, Scala, SQL, the Thrift server, notebooks and Spark Connect.
    With --for a cluster manager, event logs of its applications are compiled to queues instead,
    with the predicted effect; what would harm is not written.

    Example: iqcar rules compile rules.json --out pools/
    Example: iqcar rules compile spark-events/ --for yarn-capacity --current capacity-scheduler.xml

    Parameters
    ----------
    rules : RULES|LOG
        A rules file (`iqcar analyze --rules`); with --for a cluster, event logs of its
        applications.
    for_
        What to compile for.
    out : DIR
        Folder to write to; made if its parent is there. Default: RULES without its suffix, with
        -pools, or what --for says.
    json : FILE|-
        Write the pools as JSON too, as in pools.json (`iqcar schema rules`), or the plan for a
        cluster (`iqcar schema queues`).
    slots : 1..2147483647
        Tasks that can run at once for sure, for minShare. Default: as recorded.
    running : 1..2147483647
        Queries that run at once at most. Default: as recorded.
    """
    from iqcar.logs.attach.spark_conf import spark_url
    from iqcar.rules.compile_pools import allocation_xml, compile_rules, dump_pools, load_rules_file
    from iqcar.rules.rule import how_to
    from iqcar.show.terminal.rules import print_plan

    if for_ is not PlanTarget.FAIR_POOLS:
        return compile_queues(
            rules, for_, cluster, out=out, to_output=json == "-", all_rules=all_rules, force=force
        )
    if len(rules) > 1:
        raise UsageError("takes one file", "RULES", "several are for event logs with --for")
    (path,) = rules
    file = load_rules_file(path)
    folder = Path(out) if out else Path(path).with_name(f"{Path(path).stem}-pools")
    check_folder(folder, (ALLOCATION_FILE, POOLS_FILE, HOW_TO_FILE), force)
    known = file.recorded
    plan = compile_rules(
        file.rules, slots or known.slots, running or known.running, known.pools, all_rules=all_rules
    )
    page = how_to(
        plan,
        file.rules,
        Path(path).name,
        spark_url(str(folder / POOLS_FILE)),
        spark_url(str(folder / ALLOCATION_FILE), always=True),
    )
    if json != "-":
        print_plan(plan, [rule.id for rule in file.rules if rule.harms and all_rules])
    make_folder(folder)
    write_result(str(folder / ALLOCATION_FILE), allocation_xml(plan.pools))
    write_result(str(folder / POOLS_FILE), dump_pools(plan))
    write_result(str(folder / HOW_TO_FILE), page.encode())
    return Result(json=partial(dump_pools, plan))


@rules.command("check")
@command()
def check(
    rules: str,
    before: str,
    after: str,
    *,
    more_before: list[str] | None = None,
    more_after: list[str] | None = None,
    query_by: QueryBy = QueryBy.SQL,
) -> Result:
    """Compare a run with rules with the run they were made from, and with what was predicted.

    Queries of both runs are matched as `iqcar compare --match name` does. For each rule it says
    whether it was applied (the pool that the tasks really ran in), whether its victims got faster,
    whether the runs can tell that from chance, and how far off the prediction was.

    Example: iqcar rules check rules.json before/ after/

    Parameters
    ----------
    rules : RULES
        A rules file (`iqcar analyze --rules`).
    before : BEFORE
        Event log of the run that the rules were made from: a file, folder, glob or URL.
    after : AFTER
        Event log of the run with the rules.
    more_before : --before PATH
        One more log of the first run; several times.
    more_after : --after PATH
        One more log of the second run; several times.
    """
    from iqcar.apps.cli.reading import read_for, working
    from iqcar.comparison.check_rules import check_rules
    from iqcar.rules.compile_pools import load_rules_file
    from iqcar.show.json.analyze import check_to_json
    from iqcar.show.terminal.rules import print_check

    file = load_rules_file(rules)
    sides = [
        read_for([one, *(more or ())], query_by)
        for one, more in ((before, more_before), (after, more_after))
    ]
    with working("replaying"):
        checked = check_rules(file, *sides)
    return Result(partial(print_check, checked), partial(check_to_json, checked), tables=sides)
