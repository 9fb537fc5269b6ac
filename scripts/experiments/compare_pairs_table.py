"""Print the scores of simulated pairs of sets of runs as Markdown tables."""

from __future__ import annotations

from typing import Any

from tables import table

SCORES = ("relevant", "false", "coverage", "plants", "rho", "kind", "cause", "alarms")
HEAD = ("top ten relevant", "false", "coverage", "plants found", "ρ", "kind", "cause", "alarms")


def compare_pairs(result: dict[str, Any]) -> str:
    """Ours and the printed method: in all, by runs a side, and ours by kind of change."""
    first, last = result["seeds"]
    rows = result["rows"]
    by_runs = [row for row in rows if row["group"] == "all" or "runs a side" in row["group"]]
    quiet = {row["method"]: row for row in rows if row["group"] == "more quiet pairs"}
    kinds = [row for row in rows if row not in by_runs and row not in quiet.values()]
    by_kind = [row for row in kinds if row["method"] == "ours"]
    pairs = sum(row["pairs"] for row in by_kind)
    alarms = ""
    if quiet:
        counts = {method: round(row["alarms"] * row["pairs"]) for method, row in quiet.items()}
        alarms = (
            f"In {quiet['ours']['pairs']} more quiet pairs ours raised an alarm in "
            f"{counts['ours']}, the printed method in {counts['printed']}."
        )
    return "\n".join(
        [
            f"Seeds {first} to {last}, {pairs} pairs; means over pairs. A query is relevant if a "
            "change was planted in it, or if what follows from one changed its time by 2.5 %; "
            "coverage is the part of all effects, in ms, of the queries found; ρ is the rank "
            "correlation of contribution and effect; kind and cause: of queries that were found, "
            "those rightly explained; alarms: quiet pairs with any finding.",
            "",
            table(
                ("method", "pairs", *HEAD),
                [(f"{row['method']}, {row['group']}", *pair_cells(row)) for row in by_runs],
            ),
            "",
            *([alarms, ""] if alarms else []),
            "Ours by kind of change:",
            "",
            table(
                ("planted", "pairs", *HEAD), [(row["group"], *pair_cells(row)) for row in by_kind]
            ),
        ]
    )


def pair_cells(row: dict[str, Any]) -> tuple[str, ...]:
    """The number of pairs and the scores of one row."""
    scores = ("" if row[name] is None else f"{row[name]:.2f}" for name in SCORES)
    return (str(row["pairs"]), *scores)
