"""One short table for each experiment whose whole result has a page of its own."""

from __future__ import annotations

from typing import Any

import live_rules_table
import whatif_live_table
from compare_live_table import judge, judged_row
from compare_pairs_table import HEAD as PAIR_HEAD
from compare_pairs_table import pair_cells
from quiet_table import ranking_table, said_and_true
from tables import table
from whatif_truth_table import method_table


def quiet_clusters(result: dict[str, Any]) -> str:
    """Said against true loss, without noise and with the most."""
    most = max(row["noise"] for row in result["rows"])
    return said_and_true([row for row in result["rows"] if row["noise"] in (0, most)])


def loud_ranking(result: dict[str, Any]) -> str:
    """How well each ranking orders culprits."""
    return ranking_table(result)


def compare_pairs(result: dict[str, Any]) -> str:
    """Both methods over all pairs."""
    rows = [(row["method"], *pair_cells(row)) for row in result["rows"] if row["group"] == "all"]
    return table(("method", "pairs", *PAIR_HEAD), rows)


def compare_live(result: dict[str, Any]) -> str:
    """What was found of each change, without the causes' names and the runs."""
    rows = [judged_row(arm, judge(arm)) for arm in result["arms"]]
    head = ("change", "its queries", "found", "missed", "right cause", "false alarms")
    return table(head, [[row[0], *row[2:7]] for row in rows])


def whatif_truth(result: dict[str, Any]) -> str:
    """Errors of each method over all questions, in % of the recorded duration."""
    return method_table(result)


def whatif_live(result: dict[str, Any]) -> str:
    """Errors over all questions and of a mere repetition, by cluster."""
    rows = []
    for cluster, found in result["clusters"].items():
        for kind, of in (("nothing", found["kinds"]["nothing"]), ("all", found["all"])):
            cells = whatif_live_table.question_row(whatif_live_table.KINDS[kind], of)
            name, pairs, _, change, model, sign, rerun, _, nothing, slots = cells[:10]
            where = whatif_live_table.CLUSTERS[cluster]
            rows.append([where, name, pairs, change, model, sign, rerun, nothing, slots])
    head = ["cluster", "do", "pairs", "measured change", "model", "sign", "range holds a rerun"]
    return table([*head, "nothing changes", "slots only"], rows)


def live_rules(result: dict[str, Any]) -> str:
    """Latency of the short queries and of the intruder, by cluster and arm."""
    rows = []
    for cluster, found in result["clusters"].items():
        for arm, one in found["arms"].items():
            cells = live_rules_table.arm_row(arm, one)
            rows.append([live_rules_table.CLUSTERS[cluster], *cells[:5], cells[-1]])
    head = ["cluster", *live_rules_table.HEAD[:5], live_rules_table.HEAD[-1]]
    return table(head, rows)


def bigroots(result: dict[str, Any]) -> str:
    """Rates of each method by the paper's truth, and by what could delay a straggler."""
    rows = [
        [name, *(_share(of[truth][rate]) for truth in ("paper", "could_delay") for rate in RATES)]
        for name, of in result["all"]["methods"].items()
    ]
    head = [f"{word}{of}" for of in ("", ", could delay") for word in ("TPR", "FPR", "ACC")]
    return table(["method", *head], rows)


RATES = ("tpr", "fpr", "accuracy")


def topics_live(result: dict[str, Any]) -> str:
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
