"""Print the scores of what-if answers about simulated clusters as Markdown tables."""

from __future__ import annotations

from typing import Any

from tables import table

WORLDS = {"both": "both worlds", "fair": "fair", "rough": "rough"}


def whatif_truth(result: dict[str, Any]) -> str:
    """Errors by method and world, by question, and by family."""
    first, last = result["seeds"]
    rows = result["rows"]
    found = {(row["group"], row["world"], row["name"]): row for row in rows}
    ours = found["method", "both", "what-if"]
    return "\n".join(
        [
            f"Seeds {first} to {last}; {ours['pairs']} pairs of a question and a query that "
            "changed by more than 2 %, or was said to, and was answered. Errors are in % of the "
            "recorded duration; sign: share whose direction was said; within: share that is off "
            "by less than 10 % of the duration; τ: Kendall's τ-b of what removals gain; top: how "
            "often the worst culprit comes first. Blame is asked about removals only.",
            "",
            method_table(result),
            "",
            "By question; held: share of truths in the 80 % range; refused: of all pairs; then the "
            "errors of slots alone, and the model's in each world:",
            "",
            table(
                (
                    "question", "pairs", "median", "p90", "sign", "held", "refused",
                    "slots only", "fair", "rough",
                ),
                _by(found, "question"),
            ),
            "",
            "By family of runs:",
            "",
            table(
                ("family", "pairs", "median", "p90", "sign", "held", "refused", "fair", "rough"),
                _by(found, "family"),
            ),
        ]
    )  # fmt: skip


def method_table(result: dict[str, Any]) -> str:
    """Errors and ranks of each method over all questions."""
    methods = [
        (f"{WORLDS[row['world']]}: {row['name']}", *_errors(row), *_ranks(row))
        for row in result["rows"]
        if row["group"] == "method" and (row["world"] == "both" or row["name"] == "what-if")
    ]
    return table(("method", "median", "p90", "sign", "within", "τ", "top"), methods)


def _by(found: dict[tuple[str, str, str], dict[str, Any]], group: str) -> list[tuple[str, ...]]:
    rows = []
    for (of, world, name), row in found.items():
        if (of, world) != (group, "both"):
            continue
        slots = (_both(row, "slots_"),) if group == "question" else ()
        worlds = (_both(found[group, one, name]) for one in ("fair", "rough"))
        shares = (_share(row[key]) for key in ("sign", "held", "refused"))
        rows.append((name, str(row["pairs"]), *_errors(row)[:2], *shares, *slots, *worlds))
    return rows


def _errors(row: dict[str, Any]) -> tuple[str, ...]:
    errors = (_percent(row[key]) for key in ("median", "p90"))
    return (*errors, *(_share(row[key]) for key in ("sign", "within")))


def _ranks(row: dict[str, Any]) -> tuple[str, ...]:
    return tuple(_share(row[key]) for key in ("tau", "top"))


def _both(row: dict[str, Any], prefix: str = "") -> str:
    return ", ".join(_percent(row[prefix + key]) for key in ("median", "p90"))


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f}"


def _share(share: float | None) -> str:
    return "–" if share is None else f"{share:.2f}"
