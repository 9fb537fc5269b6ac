"""``iqcar compare``: what changed between two sets of runs, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iqcar.apps.cli.command import Result, command, explain_line, write_result
from iqcar.enums import MatchBy, QueryBy, RunBy
from iqcar.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from iqcar.comparison.sides import Side


@command("What changed between two sets of runs.", writes=("json", "out", "save_baseline"))
def compare(
    before: str | None = None,
    after: str | None = None,
    *,
    more_before: list[str] | None = None,
    more_after: list[str] | None = None,
    split: str | None = None,
    query: list[str] | None = None,
    margin: str = "5%",
    alpha: float = 0.05,
    top: int = 10,
    match: MatchBy = MatchBy.AUTO,
    pair: list[str] | None = None,
    run_by: RunBy = RunBy.HOUR,
    structure_only: bool = False,
    explain: str | None = None,
    without: list[str] | None = None,
    fail_on: list[str] | None = None,
    fail_on_new_plan: bool = False,
    strict: bool = False,
    save_baseline: str | None = None,
    json: str | None = None,
    out: str | None = None,
    query_by: QueryBy = QueryBy.SQL,
) -> Result:
    """Find what changed between two sets of runs, by how much, and why.

    Queries and stages of both sides are matched; runs decide what changed, beyond a margin and not
    by chance; tasks tell which part of it. Three verdicts: changed, same, cannot tell.

    Example: iqcar compare logs/monday/ logs/tuesday/ --fail-on 10%

    Parameters
    ----------
    before : BEFORE
        Event logs of the runs before: a file, folder, quoted glob, zip or URL; or a file of
        --save-baseline.
    after : AFTER
        Event logs of the runs after.
    more_before : --before PATH
        One more log before; several times.
    more_after : --after PATH
        One more log after; several times.
    split : TIME
        Cut one set of logs in time instead, such as at a deployment: 2026-10-01T04:00 (local time,
        or with an offset such as +02:00).
    query : NAME
        Show only this query, by name or fingerprint; several times.
    margin : SHARE
        Change of time that is none: 5% or 0.05.
    alpha
        Rate of false findings among all findings, and level of the tests.
    top : 1..1000
        How many changes to show.
    match
        How queries are matched.
    pair : OLD=NEW
        Two names or fingerprints of one query; several times.
    run_by
        What one run is.
    structure_only
        Show only other stage graphs, new queries and gone ones.
    explain : CHANGE
        Ask which parameter best tells the runs after from those before, for one change: its rank,
        1.2 for the second stage of the first, or the name of a query.
    without : PARAMETER
        Leave a parameter out of --explain, to see the next best; several times.
    fail_on : LIMIT
        End with code 4 if a query on both sides got slower by more than 10%, 500ms, or (one query)
        NAME=20%; several times.
    fail_on_new_plan
        The same if a query has another stage graph.
    strict
        Let the gate fail where it cannot tell, too.
    save_baseline : FILE
        Keep what was measured of AFTER (of BEFORE if it is alone), to be compared with later in
        place of its logs.
    out : FILE|-
        Write the comparison as one HTML file to look at, without network.
    """
    from iqcar.apps.cli.reading import working
    from iqcar.base.units import parse_share
    from iqcar.comparison.comparison import (
        check_gate,
        check_levels,
        compare_sides,
        only_queries,
        only_structure,
        parse_limit,
    )
    from iqcar.comparison.explore import explain_category, find_change
    from iqcar.comparison.sides import dump_baseline

    least = parse_share(margin, "--margin")
    check_levels(least, alpha)
    if without and explain is None:
        raise UsageError("leaves parameters out of --explain", "--without", "give --explain CHANGE")
    for limit in fail_on or ():
        parse_limit(limit)
    pairs = [_pair(text) for text in pair or ()]
    sides = _sides(
        [path for path in (before, *(more_before or ())) if path],
        [path for path in (after, *(more_after or ())) if path],
        split=split,
        alone=save_baseline is not None,
        run_by=run_by,
        query_by=query_by,
    )
    if save_baseline is not None:
        write_result(save_baseline, dump_baseline(sides[-1]))
    damaged = any(side.facts.damaged for side in sides)
    ends = ExitCode.PARTIAL if damaged else ExitCode.OK
    if len(sides) == 1:
        return Result(ends=ends)
    with working("comparing"):
        compared = compare_sides(
            (sides[0], sides[1]), margin=least, alpha=alpha, pairs=pairs, match_by=match
        )
    gated = bool(fail_on or fail_on_new_plan)
    gate = check_gate(compared, fail_on or (), new_plan=fail_on_new_plan, strict=strict)
    shown = only_queries(compared, query) if query else compared
    shown = only_structure(shown) if structure_only else shown
    explained = None
    if explain is not None:
        explained = explain_category(compared, find_change(compared, explain), without or ())
    failures = gate.failures if gated and not gate.passed else ()

    def show() -> None:
        from iqcar.show.terminal.compare import print_comparison, print_explanation

        if explained is not None:
            print_explanation(compared, explained)
        else:
            print_comparison(shown, top)

    def as_json() -> bytes:
        from iqcar.show.json.compare import compare_to_json

        return compare_to_json(shown, gate if gated else None, explained)

    def page() -> bytes:
        from iqcar.show.html.compare import render_comparison

        return render_comparison(shown).encode("utf-8", "replace")

    def tell_failures() -> None:
        for failure in failures:
            explain_line(f"failed: {failure}", err="-" in (json, out))

    ends = ExitCode.GATE if gated and not gate.passed else ends
    return Result(show, as_json, {"out": page}, ends=ends, last=tell_failures)


def _sides(
    before: list[str],
    after: list[str],
    *,
    split: str | None,
    alone: bool,
    run_by: RunBy,
    query_by: QueryBy,
) -> tuple[Side, ...]:
    """Read and measure what was given: two sides, or one whose baseline is wanted."""
    from iqcar.apps.cli.reading import read_for, working
    from iqcar.base.units import parse_moment
    from iqcar.comparison.comparison import split_sides
    from iqcar.comparison.sides import is_baseline, load_baseline, measure_side

    if not before:
        raise UsageError("no logs of the runs before", "iqcar compare", "give BEFORE and AFTER")
    if split is not None:
        if after:
            raise UsageError("cuts one set of logs", "--split", "leave AFTER out")
        moment = float(parse_moment(split, "--split"))
        tables = read_for(before, query_by)
        with working("measuring"):
            return split_sides(tables, moment, run_by)
    if not after and not alone:
        raise UsageError(
            "no logs of the runs after", "iqcar compare", "give AFTER, --split or --save-baseline"
        )
    sides = []
    for paths in (before, after):
        if len(paths) == 1 and is_baseline(paths[0]):
            sides.append(load_baseline(paths[0]))
        elif paths:
            tables = read_for(paths, query_by)
            with working("measuring"):
                sides.append(measure_side(tables, run_by))
    return tuple(sides)


def _pair(text: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    if not (old and equals and new):
        raise UsageError(f"is no pair: {text!r}", "--pair", "give OLD=NEW")
    return old, new
