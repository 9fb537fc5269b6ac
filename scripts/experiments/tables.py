"""Print results of experiments as Markdown tables, next to the paper's."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from typing import Any


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def seconds(values: Sequence[float]) -> str:
    """Median and range."""
    if len(values) == 1:
        return f"{values[0]:.1f} s"
    return f"{statistics.median(values):.1f} s ({min(values):.1f} … {max(values):.1f})"


def percent(share: float) -> str:
    """A change in percent."""
    return f"{share:+.0%}"


def correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Kendall's τ-b of a handful of numbers; 0 where one side is constant."""
    pairs = [
        (math.copysign(a != b, a - b), math.copysign(c != d, c - d))
        for (a, c), (b, d) in itertools.combinations(zip(first, second, strict=True), 2)
    ]
    scale = math.sqrt(sum(x * x for x, _ in pairs) * sum(y * y for _, y in pairs))
    return sum(x * y for x, y in pairs) / scale if scale else 0.0


def source_elimination(result: dict[str, Any]) -> str:
    """What the target gained without each source."""
    sources = result["sources"]
    rows = [
        [
            row["source"],
            f"{row['dor']:.0%}",
            f"{row['overlap_s']:.1f} s",
            seconds(row["target_s"]),
            percent(row["gain"]),
            percent(row["gain_of_others"]),
        ]
        for row in sources
    ]
    head = ["without", "DOR", "overlap", f"{result['target']} then took", "it gained", "all gained"]
    gains = [row["gain"] for row in sources]
    by_dor = correlation([row["dor"] for row in sources], gains)
    by_overlap = correlation([row["overlap_s"] for row in sources], gains)
    best = max(sources, key=lambda row: row["gain"])["source"]
    return (
        f"Target: {result['target']}, {seconds(result['base_s'])} in BASE; {result['repeats']} "
        "runs of each, medians; gains are of its duration, and of the sum over all others.\n\n"
        f"{table(head, rows)}\n\n"
        f"Rank correlation with the gain (Kendall τ-b): DOR {by_dor:.2f}, overlap in time "
        f"{by_overlap:.2f}. Taking {best} away helped most; most blamed was "
        f"{sources[0]['source']}."
    )


def rules_efficacy(result: dict[str, Any]) -> str:
    """What changed with each set of rules."""
    rows = [
        [
            arm["arm"],
            seconds(arm["target_s"]),
            percent(arm["target_change"]),
            f"{arm['slot_wait_s']:.1f} s",
            seconds(arm["total_s"]),
            percent(arm["total_change"]),
        ]
        for arm in result["arms"]
    ]
    target = result["target"]
    head = ["rules", target, "change", f"{target} waited for slots", "all queries", "change"]
    queries = list(result["arms"][0]["queries"])
    each = [
        [query, *(percent(arm["queries"][query]) for arm in result["arms"][1:])]
        for query in queries
    ]
    return (
        f"{result['repeats']} runs of each in turn, medians (and range).\n\n{table(head, rows)}\n\n"
        "Change of each query's duration:\n\n"
        f"{table(['query', *(arm['arm'] for arm in result['arms'][1:])], each)}"
    )
