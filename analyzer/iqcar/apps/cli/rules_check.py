"""``iqcar rules check``: compare the effect of rules with its prediction."""

from __future__ import annotations

from typing import Annotated

import typer

from iqcar.apps.cli import options
from iqcar.enums import QueryBy


def check(
    rules: Annotated[
        str, typer.Argument(metavar="RULES", help="A rules file (`iqcar analyze --rules`).")
    ],
    before: Annotated[
        str,
        typer.Argument(
            metavar="BEFORE",
            help="Event log of the run that the rules were made from: a file, folder, glob or URL.",
        ),
    ],
    after: Annotated[
        str, typer.Argument(metavar="AFTER", help="Event log of the run with the rules.")
    ],
    more_before: Annotated[
        list[str] | None,
        typer.Option(
            "--before", metavar="PATH", help="One more log of the first run; several times."
        ),
    ] = None,
    more_after: Annotated[
        list[str] | None,
        typer.Option(
            "--after", metavar="PATH", help="One more log of the second run; several times."
        ),
    ] = None,
    json: options.JsonFile = None,
    query_by: options.Queries = QueryBy.SQL,
    force: options.Force = False,
) -> None:
    """Compare a run with rules with the run they were made from, and with what was predicted.

    Queries of both runs are matched as `iqcar compare --match name` does. For each rule it says
    whether it was applied (the pool that the tasks really ran in), whether its victims got faster,
    whether the runs can tell that from chance, and how far off the prediction was.

    Example: iqcar rules check rules.json before/ after/
    """
    from iqcar.apps.cli.reading import exit_code, read_for, working
    from iqcar.apps.cli.writing import check_writable, write_result
    from iqcar.comparison.check_rules import check_rules
    from iqcar.rules.rule_file import load_rules_file
    from iqcar.show.json.analyze import check_to_json
    from iqcar.show.terminal.rules_check import print_check

    check_writable(json, force)
    file = load_rules_file(rules)
    first = read_for([before, *(more_before or ())], query_by)
    second = read_for([after, *(more_after or ())], query_by)
    with working("replaying"):
        checked = check_rules(file, first, second)
    if json != "-":
        print_check(checked)
    if json is not None:
        write_result(json, check_to_json(checked))
    raise typer.Exit(max(exit_code(first), exit_code(second)))
