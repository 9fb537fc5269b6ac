"""What Spectroscope says as it is printed of a simulated pair: the baseline beside ours.

The low-level explanation is the first question of the tree of parameters (section 5.5).
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from iqcar.comparison.comparison import Comparison
from iqcar.comparison.explore import best_split
from iqcar.comparison.sides.comparison_tables import MEASURES
from iqcar.tables import texts
from iqcar_lab.printed.spectroscope import printed_findings
from tests.support.compare_scores import Found

CAUSE_OF_PARAMETER = {
    "bytes": "data:bytes",
    "partitions": "partitions",
    "tasks": "partitions",
    "spill_bytes": "metric:spill_bytes",
    "bytes_max_over_mean": "skew:bytes",
    "hosts": "environment:hosts",
}
"""What a parameter says; any other is a metric."""


def found_as_printed(comparison: Comparison) -> list[Found]:
    """Categories of one query are one finding; the largest contribution decides its kind."""
    by_query = defaultdict(list)
    for row in printed_findings(comparison):
        by_query[comparison.name(row["category"])].append(row)
    said = []
    for name, rows in by_query.items():
        main = max(rows, key=lambda row: abs(row["contribution_ms"]))
        total = sum(row["contribution_ms"] for row in rows)
        said.append(Found(name, total, main["kind"], _explanation(comparison, name)))
    return sorted(said, key=lambda one: -abs(one.contribution_ms))


def _explanation(comparison: Comparison, name: str) -> tuple[str, ...]:
    """The parameter that best tells the runs before from those after."""
    categories = comparison.categories
    both = texts(categories, "name_before"), texts(categories, "name_after")
    rows = [row for row in comparison.common.tolist() if name in (both[0][row], both[1][row])]
    if not rows:
        return ()
    runs = comparison.category_runs
    runs = runs[runs["category"] == rows[0]]
    measures = [measure for measure, *_ in MEASURES if measure != "time_ms"]
    parameters = runs[[*measures, "bytes_max_over_mean"]].reset_index(drop=True)
    split = best_split(parameters, runs["side"].to_numpy(np.int64))
    if split is None:
        return ()
    return (CAUSE_OF_PARAMETER.get(split.parameter, f"metric:{split.parameter}"),)
