"""Say what makes a comparison doubtful."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from iqcar.comparison.effects import FAMILIES
from iqcar.comparison.judged_effect import loads_differ
from iqcar.comparison.recorded_parts import unlike_doubt
from iqcar.tables.arrays import Flags

if TYPE_CHECKING:
    from iqcar.comparison.measured_side import Side

SHORT_RUN = 0.5
"""Share of the queries of the fullest run below which a run is called short."""


def find_comparison_doubts(
    sides: tuple[Side, Side], runs: pd.DataFrame, categories: pd.DataFrame, unlike: Flags
) -> tuple[str, ...]:
    """Return one sentence for each doubt, without a full stop.

    Parameters
    ----------
    sides : tuple of Side
    runs : DataFrame of CATEGORY_RUNS
    categories : DataFrame of CATEGORIES
    unlike : ndarray of shape (n_categories, n_parts), bool
        Parts that are not compared.
    """
    doubts = [
        f"{word}, {doubt}"
        for word, side in zip(("Before", "After"), sides, strict=True)
        for doubt in side.doubts
    ]
    before, after = (side.facts for side in sides)
    if min(before.runs, after.runs) == 1:
        spreads = ", ".join(
            f"{family.one_run.variance**0.5:.0%} of {word}".replace("%", " %")
            for family, word in zip(FAMILIES, ("time", "CPU time", "data", "skew"), strict=True)
        )
        which = "either side" if before.runs == after.runs else "one side"
        doubts.append(
            f"There is one run on {which}: what it would be on other days is unknown; equal runs "
            f"are taken to differ as they usually do (by {spreads}), so trust CPU time, data and "
            "stage graphs before time"
        )
    same = [] if _is_split(sides) else sorted({*before.applications} & {*after.applications})
    if same and len(same) == len(before.applications) == len(after.applications):
        doubts.append("Both sides are the same applications: nothing can have changed")
    elif same:
        doubts.append(f"{len(same)} applications are on both sides, such as {same[0]}")
    if before.hosts and after.hosts and not set(before.hosts) & set(after.hosts):
        doubts.append(
            "No host is on both sides: other machines make other times, whatever the queries do; "
            "a host can be told to be slow beside the others of its side, not to have become so"
        )
    if loads_differ(before.outside_load, after.outside_load):
        doubts.append(
            f"Processes other than the executors used {before.outside_load:.0%} of the hosts' "
            f"processors before and {after.outside_load:.0%} after: no effect can be told apart "
            "from that; repeat both on quiet hosts"
        )
    if unlike.any():
        doubts.append(unlike_doubt(sides, unlike, categories))
    is_query = categories["kind"].to_numpy() == "query"
    queries = runs[is_query[runs["category"].to_numpy()]].groupby(["side", "run"]).size()
    short = int((queries < SHORT_RUN * queries.max()).sum())
    if short:
        doubts.append(
            f"{short} of {len(queries)} runs hold less than half of the queries of the fullest "
            "one: each query is compared over the runs that hold it"
        )
    return tuple(doubts)


def _is_split(sides: tuple[Side, Side]) -> bool:
    """Tell whether both sides are queries of one set of logs, each query on one side."""
    rows = [side.rows for side in sides]
    if rows[0] is None or rows[1] is None or sides[0].tables is not sides[1].tables:
        return False
    return not ((rows[0].query_run >= 0) & (rows[1].query_run >= 0)).any()
