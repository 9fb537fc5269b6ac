"""Print what queries are said to lose on quiet and loud clusters as Markdown tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tables import table

HEAD = ("clusters", "evidence of CPU waits", "noise", "true", "said", "worst", "slope", "error")
KINDS = {False: "quiet", True: "loud", None: "all"}


def quiet_clusters(result: dict[str, Any]) -> str:
    """Said against true loss, in all and by family."""
    first, last = result["seeds"]
    of_family = {
        (row["plain"], row["loud"], row["family"]): row for row in result["rows"] if row["family"]
    }
    families = [
        (
            f"{KINDS[loud]}: {family}",
            *_scores(row),
            *_scores(of_family[True, loud, family])[1::2],
        )
        for (plain, loud, family), row in of_family.items()
        if not plain
    ]
    return "\n".join(
        [
            f"Seeds {first} to {last}; true and said: mean share of a query's run that it lost to "
            "other queries; worst: the most said of one query (where the truth is 0, all of it is "
            "wrong); error: mean absolute difference.",
            "",
            said_and_true(result["rows"]),
            "",
            "By family without noise, CPU waits measured, then estimated:",
            "",
            table(("family", *HEAD[3:], "said", "slope"), families),
        ]
    )


def said_and_true(rows: Sequence[dict[str, Any]]) -> str:
    """Said against true loss over all families, by evidence and noise."""
    every = [
        (
            KINDS[row["loud"]],
            "estimated" if row["plain"] else "measured",
            f"{row['noise']:.0%}",
            *_scores(row),
        )
        for row in rows
        if not row["family"]
    ]
    return table(HEAD, every)


def _scores(row: dict[str, Any]) -> tuple[str, ...]:
    slope = "" if row["true"] < 0.01 else f"{row['slope']:.2f}"
    shares = (f"{max(row[name], 0.0):.1%}" for name in ("true", "mean", "worst"))
    return (*shares, slope, f"{row['error']:.1%}")


def loud_ranking(result: dict[str, Any]) -> str:
    """Rankings by blame, by another truth and by the oracle, in all and by family."""
    first, last = result["seeds"]
    names = list(dict.fromkeys(row["ranked_by"] for row in result["rows"]))
    plain = {(row["family"], row["ranked_by"]): row for row in result["rows"] if row["family"]}
    families = [
        (family, *(f"{plain[family, name]['tau']:.2f}, {plain[family, name]['top']:.2f}"
                   for name in names))
        for family in dict.fromkeys(family for family, _ in plain)
    ]  # fmt: skip
    return "\n".join(
        [
            f"Seeds {first} to {last}; every query of a run is a target. τ: Kendall's τ-b with the "
            "gains; top-1: how often the worst culprit comes first; false: share of the blame on "
            "queries that cost less than 2 %. Clear: only pairs, and first culprits, whose gains "
            f"differ by more than {result['luck']:.1%} of the run, which is what other luck moves "
            "such a difference by (root mean square); in brackets how many.",
            "",
            ranking_table(result),
            "",
            "τ and top-1 by family:",
            "",
            table(("family", *names), families),
        ]
    )


def ranking_table(result: dict[str, Any]) -> str:
    """How well each ranking orders culprits, over all families."""
    every = [
        (
            row["ranked_by"],
            *(f"{row[score]:.2f}" for score in ("tau", "top", "false_blame")),
            f"{row['clear_tau']:.2f} ({row['clear_pairs']})",
            f"{row['clear_top']:.2f} ({row['clear_tops']})",
        )
        for row in result["rows"]
        if not row["family"]
    ]
    return table(("ranked by", "τ", "top-1", "false", "τ, clear", "top-1, clear"), every)


def quiet_formats(result: dict[str, Any]) -> str:
    """Share lost to others by query and evidence: the range over runs."""
    rows = []
    for query in dict.fromkeys(row["query"] for row in result["rows"]):
        cells = [query]
        for evidence in ("measured", "plain"):
            mine = [
                row
                for row in result["rows"]
                if row["query"] == query and row["evidence"] == evidence
            ]
            cells += [_range(mine, lambda row: row["lost_to_others"]), _most(mine)]
        rows.append(cells)
    outside = ", ".join(f"{share:.0%}" for share in result["outside"])
    head = ("query", "lost to others, measured", "most to", "from the plain log", "most to")
    return "\n".join(
        [
            f"{len(result['outside'])} runs; programs outside of Spark used {outside} of the "
            "processors.",
            "",
            table(head, rows),
        ]
    )


def _range(rows: Sequence[dict[str, Any]], value: Callable[[dict[str, Any]], float]) -> str:
    values = [value(row) for row in rows]
    return f"{min(values):.1%} … {max(values):.1%}"


def _most(rows: Sequence[dict[str, Any]]) -> str:
    """Whom most was lost to, where it was worth naming."""
    return ", ".join(
        dict.fromkeys(row["most"] for row in rows if row["most"] and row["lost_to_others"] > 0.05)
    )
