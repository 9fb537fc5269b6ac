"""Print docs/evaluation.md: one table for each result of docs/evaluation/, and how to repeat it."""

from __future__ import annotations

import json
import re
import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np

from iqcar_lab.clusters.truth import kendall_tau_b

DOCS = Path(__file__).resolve().parents[2] / "docs"
PRINTED = re.compile(r"<!-- printed: (?P<name>\w+) -->\n(?:.*?\n)??<!-- end -->", re.S)
"""What is printed of a result, by its name: the command, the table and a link."""


def evaluation_page() -> str:
    """Print what every experiment found; the text beside it stays."""
    return PRINTED.sub(_printed, (DOCS / "evaluation.md").read_text("utf-8"))


def _printed(place: re.Match[str]) -> str:
    name = place["name"]
    script = (
        f"{name}.py" if Path(__file__).with_name(f"{name}.py").exists() else f"simulated.py {name}"
    )
    result = json.loads((DOCS / "evaluation" / f"{name}.json").read_text("utf-8"))
    seeds = f"Seeds {result['seeds'][0]} to {result['seeds'][-1]}. " if "seeds" in result else ""
    whole = f"{seeds}[All that was found](../docs/evaluation/{name}.json)."
    return (
        f"<!-- printed: {name} -->\n    .venv/bin/python scripts/experiments/{script}\n\n"
        f"{globals()[name](result)}\n\n{whole}\n<!-- end -->"
    )


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


def _percent(share: float | None, digits: int = 1) -> str:
    return "–" if share is None else f"{share:.{digits}%}"


def families(result: dict[str, Any]) -> str:
    """Scores of each group of families, with the plugin's records and without."""
    rows = [row for row in result["rows"] if not row["group"]]
    found = {(row["family"], row["plain"]): row for row in rows}
    lines = []
    for name in dict.fromkeys(name for name, _ in found):
        both = [found[name, plain] for plain in (False, True)]
        lines.append(
            (
                name, _logs(both, "tau"), _cell(both[0]["luck_tau"]),
                *(_logs(both, key) for key in ("top", "false_blame")),
                _cell(both[0]["true"], 100), _logs(both, "said", 100), _logs(both, "slope"),
                _logs(both, "error", 100), _logs(both, "missed"),
                *(_logs(both, key, 100) for key in ("quiet_worst", "noisy_worst")),
            )
        )  # fmt: skip
    head = ("families", "τ", "luck", "top-1", "false", "lost", "said", "slope", "error", "missed")
    return table((*head, "quiet", "noise"), lines)


def _logs(rows: Sequence[dict[str, Any]], key: str, times: float = 1) -> str:
    cells = dict.fromkeys(_cell(row[key], times) for row in rows)
    return ", ".join(cells)


def _cell(value: float | None, times: float = 1) -> str:
    return "–" if value is None else f"{times * value + 0.0:.{1 if times > 1 else 2}f}"


def known_runs(result: dict[str, Any]) -> str:
    """Errors, widths of ranges and missed victims, without a store and with it."""
    rows = []
    for row in result["rows"]:
        sides = row["without"], row["store"]
        error, width = (
            ", ".join(_cell(side[key], 100) for side in sides) for key in ("error", "width")
        )
        missed = ", ".join(str(side["missed"]) for side in sides)
        rows.append((row["family"], error, width, f"{missed} of {row['victims']}"))
    return table(("", "error, without and with the store", "width", "missed"), rows)


def planted_findings(result: dict[str, Any]) -> str:
    """What was said and saved, by kind."""
    rows = [
        (
            row["kind"], row["runs"], row["first"], row["in_three"], f"{row['saved']:.0%}",
            f"{row['said']:.0%} ({row['low']:.0%} … {row['high']:.0%})", row["within"],
            row["within_estimated"], row["others"], row["others_false"],
        )
        for row in result["kinds"]
    ]  # fmt: skip
    head = ("planted", "runs", "first", "in three", "saved", "said", "within", "estimated")
    shown = table((*head, "others", "false"), [[str(cell) for cell in row] for row in rows])
    quiet = result["quiet"]
    found, within, false = (
        sum(row[key] for row in quiet["kinds"]) for key in ("found", "within", "false")
    )
    return (
        f"{shown}\n\nOn {quiet['runs']} runs of quiet clusters: {found} findings, {within} within "
        f"their range, {false} false."
    )


def real_logs(result: dict[str, Any]) -> str:
    """What an expert and iqcar say first of each log, and what nobody may say."""
    rows = [
        (
            ", ".join(filter(None, (row["application"], row["spark"], row["master"]))),
            row["expert"], ", ".join(row["first"]), ", ".join(f"`{one}`" for one in row["never"]),
            row["said"], "yes" if row["right"] else "no", ", ".join(row["wrong"]),
        )
        for row in result["rows"]
    ]  # fmt: skip
    head = ("application", "an expert says first", "as", "nobody may say", "iqcar says first")
    shown = table((*head, "right", "wrongly said"), rows)
    right = sum(row["right"] for row in result["rows"])
    said = sum(bool(row["wrong"]) for row in result["rows"])
    return f"{shown}\n\nRight: {right} of {len(rows)}. What nobody may say is said of {said}."


def topic_rules(result: dict[str, Any]) -> str:
    """What rules with and without topics save, by family."""
    rows = [
        (
            row["family"],
            *(f"{row[f'{key}_{arm}']:.1%}" for key in ("saved", "saved_short")
              for arm in ("without", "with")),
            f"{row['better']} / {row['worse']}", f"{100 * row['worst']:+.1f}",
        )
        for row in result["families"]
    ]  # fmt: skip
    head = ("family", "saved without", "saved with", "short without", "short with")
    return table((*head, "better / worse", "worst"), rows)


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
    head = ("query", "lost to others, measured", "most to", "from the plain log", "most to")
    return table(head, rows)


def _range(rows: Sequence[dict[str, Any]], value: Callable[[dict[str, Any]], float]) -> str:
    values = [value(row) for row in rows]
    return f"{min(values):.1%} … {max(values):.1%}"


def _most(rows: Sequence[dict[str, Any]]) -> str:
    """Whom most was lost to, where it was worth naming."""
    return ", ".join(
        dict.fromkeys(row["most"] for row in rows if row["most"] and row["lost_to_others"] > 0.05)
    )


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
    dor, overlap, gain = (
        np.array([row[key] for row in sources]) for key in ("dor", "overlap_s", "gain")
    )
    return (
        f"{result['target']} took {seconds(result['base_s'])}; {result['repeats']} runs of each, "
        f"medians.\n\n{table(head, rows)}\n\nRank correlation with the gain (Kendall τ-b): "
        f"DOR {kendall_tau_b(dor, gain):.2f}, overlap in time {kendall_tau_b(overlap, gain):.2f}."
    )


RATES = ("tpr", "fpr", "accuracy")
TABLE_V = {"BigRoots (paper)": (0.6056, 0.0035, 0.9181), "PCC (paper)": (0.6619, 0.1625, 0.8022)}
"""TPR, FPR and ACC over several nodes, as printed."""


def bigroots(result: dict[str, Any]) -> str:
    """Rates and areas by the paper's truth, and by what could delay a straggler."""
    areas = {roc["method"]: roc["auc"] for roc in result["roc"]}
    rows = []
    for name, of in result["all"]["methods"].items():
        cells = [name]
        for truth, all_of in (("paper", "all"), ("could_delay", "all, what could delay")):
            cells += [_percent(of[truth][rate]) for rate in RATES]
            cells.append(_cell(areas.get(name, {}).get(all_of)))
        rows.append(cells)
    rows += [[name, *map(_percent, rates), *["–"] * 5] for name, rates in TABLE_V.items()]
    head = [f"{word}{of}" for of in ("", ", could delay") for word in ("TPR", "FPR", "ACC", "area")]
    return table(["method", *head], rows)


def topics_live(result: dict[str, Any]) -> str:
    """How often the stages and stragglers of a trouble have a topic of that name."""
    rows = [
        [
            one["trouble"],
            str(one["with_stragglers"]),
            str(one["dominant_named_so"]),
            f"{one['share_named_so']:.0%}",
            str(one["stragglers"]),
            str(one["stragglers_named_so"]),
        ]
        for one in result["stages"]
        if one["trouble"] != "none"
    ]
    head = ["trouble", "stages with stragglers", "mostly named so", "share named so"]
    return table([*head, "stragglers", "named so"], rows)


WORLDS = {"both": "both worlds", "fair": "fair", "rough": "rough"}


def whatif_truth(result: dict[str, Any]) -> str:
    """Errors and ranks of each method over all questions."""
    keys = ("sign", "within", "held", "tau", "top")
    rows = []
    for row in result["rows"]:
        is_ours = row["name"] == "what-if"
        if row["group"] == "method" and (row["world"] == "both" or is_ours):
            shares = (row[key] if key != "held" or is_ours else None for key in keys)
            errors = (f"{100 * row[key]:.1f}" for key in ("median", "p90"))
            rows.append((f"{WORLDS[row['world']]}: {row['name']}", *errors, *map(_cell, shares)))
    return table(("method", "median", "p90", "sign", "within", "held", "τ", "top"), rows)


def _seconds(values: list[float | None]) -> str:
    return ", ".join("–" if value is None else f"{value:.0f}" for value in values)


WHATIF_CLUSTERS = {
    "embedded": "Embedded, `local[2]`",
    "crowded": "Embedded, `local[4]` on two processors",
    "standalone": "Standalone, two workers with one slot each",
}


def whatif_live(result: dict[str, Any]) -> str:
    """Errors of a mere repetition and over all questions, by cluster."""
    rows = []
    for cluster, found in result["clusters"].items():
        kinds = {
            "nothing (the same mix)": found["kinds"]["nothing"],
            "all but nothing": found["all"],
        }
        for name, kind in kinds.items():
            methods = kind["methods"]
            errors = (_errors(methods, name) for name in ("model", "nothing changes", "slots only"))
            rows.append(
                [
                    WHATIF_CLUSTERS[cluster], name, str(kind["pairs"]),
                    _percent(kind.get("change"), 0), *errors,
                    _percent(methods.get("model", {}).get("sign"), 0),
                    _percent(kind.get("covered_one"), 0),
                ]
            )  # fmt: skip
    head = ["cluster", "do", "pairs", "measured change", "model", "nothing changes", "slots only"]
    return table([*head, "sign", "range holds a rerun"], rows)


def _errors(methods: dict[str, Any], method: str) -> str:
    one = methods.get(method)
    return f"{100 * one['median']:.0f}, {100 * one['p90']:.0f}" if one else "–"


def rules_efficacy(result: dict[str, Any]) -> str:
    """What changed with each set of rules."""
    target = result["target"]
    rows = []
    for arm in result["arms"]:
        query, change = max(arm["queries"].items(), key=lambda item: item[1])
        cells = [
            arm["arm"],
            seconds(arm["target_s"]),
            percent(arm["target_change"]),
            f"{arm['slot_wait_s']:.1f} s",
            seconds(arm["total_s"]),
            percent(arm["total_change"]),
        ]
        rows.append([*cells, f"{query} {percent(change)}" if change > 0 else "–"])
    head = ["rules", target, "change", f"{target} waited for slots", "all queries", "change"]
    return f"{result['repeats']} runs of each in turn, medians.\n\n" + table(
        [*head, "most slowed"], rows
    )


RULES_CLUSTERS = {
    "embedded": "Embedded, `local[4]`",
    "standalone": "Standalone, two workers with two slots each",
}


def live_rules(result: dict[str, Any]) -> str:
    """Latency of the short queries and of the intruder, by cluster and arm."""
    rows = [
        [
            RULES_CLUSTERS[cluster],
            arm,
            *(f"{one[key]:.2f} s" for key in ("busy_median_s", "busy_p90_s", "quiet_median_s")),
            f"{one['intruder_median_s']:.1f} s",
            _seconds(one["to_rule_s"]) if any(one["changes"]) else "",
            one.get("verdict", ""),
        ]
        for cluster, found in result["clusters"].items()
        for arm, one in found["arms"].items()
    ]
    head = ["cluster", "arm", "short queries: median", "90 %", "without intruder"]
    return table([*head, "intruder: median", "seconds to the rule", "verdict"], rows)


def yarn_queues(result: dict[str, Any]) -> str:
    """How long the query of each tenant took before a plan and with it."""
    head = ["for", "outlook", "application", "took", "replayed", "predicted with the plan", "took"]
    rows = list(result["rows"])
    for target in dict.fromkeys(row[0] for row in rows):
        mine = [row for row in rows if row[0] == target and row[2].startswith("report")]
        sums = [sum(float(row[at].split()[0]) for row in mine) for at in range(3, 7)]
        whole = [target, "", "both reports", *(f"{value:.1f} s" for value in sums)]
        rows.insert(max(map(rows.index, mine)) + 1, whole)
    return table(head, rows)


SCORES = ("relevant", "false", "coverage", "plants", "rho", "kind", "cause", "alarms")
PAIRS_HEAD = (
    "top ten relevant", "false", "coverage", "plants found", "ρ", "kind", "cause", "alarms",
)  # fmt: skip


def compare_pairs(result: dict[str, Any]) -> str:
    """Ours and the printed method over all pairs."""
    rows = [
        (row["method"], str(row["pairs"]), *(_cell(row[name]) for name in SCORES))
        for row in result["rows"]
        if row["group"] == "all"
    ]
    return table(("method", "pairs", *PAIRS_HEAD), rows)


MARGIN, LEAST_S = 0.05, 0.05
"""Relative change, and seconds, from which the driver's clock says that a query changed."""


COMPARED = ("change", "its queries", "found", "missed", "right cause", "false alarms")


def compare_live(result: dict[str, Any]) -> str:
    """How many queries of each change were found, missed, and said wrongly."""
    rows = []
    for arm in result["arms"]:
        of = judge(arm)
        concerned = [query for query in (*of["found"], *of["missed"]) if _has_changed(query)]
        planted = any(query["planted"] for query in arm["queries"])
        counts = [
            str(len(queries)) if planted else "–"
            for queries in (concerned, of["found"], of["missed"])
        ]
        right = f"{len(of['right'])} of {len(of['with_cause'])}" if of["with_cause"] else "–"
        rows.append([arm["change"], *counts, right, str(len(of["false"]))])
    alarmed = sum(bool(pair["listed"]) for pair in result["quiet"])
    return (
        f"{table(COMPARED, rows)}\n\nOf {len(result['quiet'])} pairs of equal runs that were not "
        f"measured in turns, {alarmed} have a finding."
    )


def judge(arm: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Sort the queries of an arm.

    found, missed, unharmed, false: planted queries that are listed; not listed though their time
    changed; not listed, and their time did not; and listed though nothing was planted in them.
    right, with_cause: of those found, the ones whose first cause is the planted one; all but new
    queries.
    """
    of: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for query in arm["queries"]:
        if query["planted"] and query["listed"]:
            of["found"].append(query)
            if query["kind"] not in ("added", "removed"):
                of["with_cause"].append(query)
                of["right"].extend([query] if _is_right(query) else [])
        elif query["planted"]:
            of["missed" if _has_changed(query) else "unharmed"].append(query)
        elif query["listed"]:
            of["false"].append(query)
    return of


def _has_changed(query: dict[str, Any]) -> bool:
    """Tell whether a query is new, or its mean time changed by as much as matters."""
    if not query["before_s"] or not query["after_s"]:
        return True
    before, after = statistics.mean(query["before_s"]), statistics.mean(query["after_s"])
    return abs(after - before) >= max(MARGIN * min(before, after), LEAST_S)


def _is_right(query: dict[str, Any]) -> bool:
    """Tell whether the first cause, or a setting that follows it, is a planted one."""
    first, *others = [cause for cause, _ in query["causes"]] or [""]
    settings = takewhile(lambda cause: cause.startswith(("conf:", "version:")), others)
    return any(cause.startswith(tuple(query["planted"])) for cause in (first, *settings))


def planted_causes(result: dict[str, Any]) -> str:
    """What was said first of each application, and what mending it saved."""
    found = {(row["kind"], row["variant"]): row for row in result["rows"]}
    variants = ("plugin", "plain")
    lines = [
        (kind, *(cell for v in variants for cell in _planted(found.get((kind, v)))))
        for kind in dict.fromkeys(kind for kind, _ in found)
    ]
    counts = []
    for variant in variants:
        mine = [row for row in result["rows"] if row["variant"] == variant]
        judged = [row for row in mine if row["within"] is not None]
        counts.append(
            f"{variant}: cause first in {sum(row['place'] == 1 for row in mine)} of {len(mine)}, "
            f"saving within in {sum(row['within'] for row in judged)} of {len(judged)}"
        )
    head = ("planted", *(word for v in variants for word in (f"first, {v}", "said", "saved")))
    return f"{table(head, lines)}\n\n{'; '.join(counts)}."


def _planted(row: dict[str, Any] | None) -> tuple[str, str, str]:
    """The first finding, what is said, and what was saved; bold where that is not as said."""
    if row is None:
        return "–", "–", "–"
    first = row["first"] if row["place"] == 1 else f"**{row['first']}** ({row['place'] or '–'})"
    said = saved = "–"
    if "freed" in row:
        said = "–" if row["frees"] is None else f"up to {row['frees']:.0%}"
        saved = f"{row['freed']:.0%}"
    elif row["saved_ms"] is not None:
        said = "–" if row["low_ms"] is None else f"{_s(row['low_ms'])} … {_s(row['high_ms'])}"
        saved = f"{_s(row['saved_ms'])} of {_s(row['was_ms'])}"
    return first, said, f"**{saved}**" if row["within"] is False else saved


def _s(ms: float) -> str:
    return f"{ms / 1e3:.1f}"
