"""Print the tables into docs/evaluation.md and the pages of long results, from what was found."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import live_tables
import tables
from live_tables import (
    KINDS,
    RULES_CLUSTERS,
    RULES_HEAD,
    WHATIF_CLUSTERS,
    arm_row,
    judge,
    judged_row,
    question_row,
)
from tables import (
    PAIRS_HEAD,
    families_table,
    findings_table,
    method_table,
    pair_cells,
    table,
)

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = ("evaluation.md", "history.md")
"""Pages with tables of results, beside those of long results."""
PRINTED = re.compile(
    r"<!-- printed: (?P<name>\w+)(?P<short>, short)? -->\n(?:.*?\n)??<!-- end -->", re.S
)
"""A table in a page: the result's name, and whether it is its short table."""


def pages() -> dict[str, str]:
    """Print the tables of every page, by its path in docs/; the text beside them stays."""
    files = [*(DOCS / name for name in PAGES), *sorted((DOCS / "evaluation").glob("*.md"))]
    return {
        str(file.relative_to(DOCS)): PRINTED.sub(_printed, file.read_text("utf-8"))
        for file in files
    }


def _printed(place: re.Match[str]) -> str:
    mark = place[0].partition("\n")[0]
    name = place["name"]
    result = json.loads((DOCS / "evaluation" / f"{name}.json").read_text("utf-8"))
    shown = globals()[f"short_{name}"] if place["short"] else _whole(name)
    return f"{mark}\n{shown(result)}\n<!-- end -->"


def _whole(name: str) -> Any:
    """What prints all tables of a result."""
    places = (live_tables, tables)
    return next(getattr(place, name) for place in places if hasattr(place, name))


def short_families(result: dict[str, Any]) -> str:
    """Scores of each group of families."""
    return families_table([row for row in result["rows"] if not row["group"]])


def short_planted_findings(result: dict[str, Any]) -> str:
    """What was said and saved, by kind."""
    return findings_table(result)


def short_compare_pairs(result: dict[str, Any]) -> str:
    """Both methods over all pairs."""
    rows = [(row["method"], *pair_cells(row)) for row in result["rows"] if row["group"] == "all"]
    return table(("method", "pairs", *PAIRS_HEAD), rows)


def short_compare_live(result: dict[str, Any]) -> str:
    """What was found of each change, without the causes' names and the runs."""
    rows = [judged_row(arm, judge(arm)) for arm in result["arms"]]
    head = ("change", "its queries", "found", "missed", "right cause", "false alarms")
    return table(head, [[row[0], *row[2:7]] for row in rows])


def short_whatif_truth(result: dict[str, Any]) -> str:
    """Errors of each method over all questions, in % of the recorded duration."""
    return method_table(result)


def short_whatif_live(result: dict[str, Any]) -> str:
    """Errors over all questions and of a mere repetition, by cluster."""
    rows = []
    for cluster, found in result["clusters"].items():
        for kind, of in (("nothing", found["kinds"]["nothing"]), ("all", found["all"])):
            cells = question_row(KINDS[kind], of)
            name, pairs, _, change, model, sign, rerun, _, nothing, slots = cells[:10]
            where = WHATIF_CLUSTERS[cluster]
            rows.append([where, name, pairs, change, model, sign, rerun, nothing, slots])
    head = ["cluster", "do", "pairs", "measured change", "model", "sign", "range holds a rerun"]
    return table([*head, "nothing changes", "slots only"], rows)


def short_live_rules(result: dict[str, Any]) -> str:
    """Latency of the short queries and of the intruder, by cluster and arm."""
    rows = []
    for cluster, found in result["clusters"].items():
        for arm, one in found["arms"].items():
            cells = arm_row(arm, one)
            rows.append([RULES_CLUSTERS[cluster], *cells[:5], cells[-1]])
    head = ["cluster", *RULES_HEAD[:5], RULES_HEAD[-1]]
    return table(head, rows)


def short_bigroots(result: dict[str, Any]) -> str:
    """Rates of each method by the paper's truth, and by what could delay a straggler."""
    rows = [
        [name, *(_share(of[truth][rate]) for truth in ("paper", "could_delay") for rate in RATES)]
        for name, of in result["all"]["methods"].items()
    ]
    head = [f"{word}{of}" for of in ("", ", could delay") for word in ("TPR", "FPR", "ACC")]
    return table(["method", *head], rows)


RATES = ("tpr", "fpr", "accuracy")


def short_topics_live(result: dict[str, Any]) -> str:
    """How often the stages and stragglers of a trouble have a topic of that name."""
    rows = [
        [
            one["trouble"],
            str(one["with_stragglers"]),
            f"{one['dominant_named_so']}",
            f"{one['share_named_so']:.0%}",
            str(one["stragglers"]),
            f"{one['stragglers_named_so']}",
        ]
        for one in result["stages"]
        if one["trouble"] != "none"
    ]
    head = ["trouble", "stages with stragglers", "mostly named so", "share named so"]
    return table([*head, "stragglers", "named so"], rows)


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"
