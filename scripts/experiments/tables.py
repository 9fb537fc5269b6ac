"""Tables of what was found: on simulated clusters, and of planted stragglers, as Markdown."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Sequence
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


def planted_findings(result: dict[str, Any]) -> str:
    """What was said and saved by kind, then on quiet clusters."""
    first, last = result["seeds"]
    quiet = result["quiet"]
    return "\n".join(
        [
            f"Seeds {first} to {last}. First, in three: runs in which the planted cause is the "
            "first finding, or one of the first three. Saved: share of the run that the action "
            "saved; said: what the finding said, with its range (means). Within: runs in which the "
            "range holds what was saved; estimated: the same without replay. Others: other "
            "findings of 5 % of the run or more; false: those whose action saved less than a third "
            "of the lower end.",
            "",
            findings_table(result),
            "",
            f"On {quiet['runs']} runs of quiet clusters, where nothing is planted but partitions, "
            "sizes, collection and hosts vary:",
            "",
            table(
                ("finding", "found", "within", "false"),
                [[str(row[name]) for name in ("kind", "found", "within", "false")]
                 for row in quiet["kinds"]],
            ),
        ]
    )  # fmt: skip


def findings_table(result: dict[str, Any]) -> str:
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
    return table((*head, "others", "false"), [[str(cell) for cell in row] for row in rows])


def topic_rules(result: dict[str, Any]) -> str:
    """What rules with and without topics save, by family."""
    first, last = result["seeds"]
    rows = [
        (
            row["family"],
            *(f"{row[f'{key}_{arm}']:.1%}" for key in ("saved", "saved_short")
              for arm in ("without", "with")),
            *(f"{row[f'rules_{arm}']:.1f}" for arm in ("without", "with")),
            f"{row['better']} / {row['worse']}", f"{100 * row['worst']:+.1f}",
        )
        for row in result["families"]
    ]  # fmt: skip
    head = ("family", "saved without", "saved with", "short without")
    return "\n".join(
        [
            f"Seeds {first} to {last}. Saved: share of the time of all queries in the next run "
            "(means); short: of the short ones alone; rules: those that act; better / worse: runs "
            "in which topics saved more or less; worst: by how much, in percentage points.",
            "",
            table((*head, "short with", "rules without", "with", "better / worse", "worst"), rows),
        ]
    )


def families(result: dict[str, Any]) -> str:
    """Every measure of families in which contention hardly varies, and of all groups."""
    first, last = result["seeds"]
    chosen = [row for row in result["rows"] if row["group"] in ("steady", "")]
    return "\n".join(
        [
            f"Seeds {first} to {last}; every query of a run is a target. τ: Kendall's τ-b with the "
            "gains of removing each other query; luck: what the gains of the same run with other "
            "sizes of tasks reach; top-1: how often the worst culprit comes first; false: share of "
            "the blame on queries that cost less than 2 %. Lost, said: mean share of a run in %; "
            "error: mean absolute difference. Missed: of queries that lost 20 % or more, those of "
            "whose loss less than a third was said. Quiet, noise: the most that is said on quiet "
            "twins, without noise and with 30 % on the waits. Two figures where they "
            "differ: with the plugin's records, and a plain log.",
            "",
            families_table(chosen),
        ]
    )


def families_table(rows: Sequence[dict[str, Any]]) -> str:
    """Scores of families, with the plugin's records and without."""
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


def _logs(rows: Sequence[dict[str, Any]], key: str, times: float = 1) -> str:
    cells = dict.fromkeys(_cell(row[key], times) for row in rows)
    return ", ".join(cells)


def _cell(value: float | None, times: float = 1) -> str:
    return "–" if value is None else f"{times * value + 0.0:.{1 if times > 1 else 2}f}"


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
            "By question; held: share of truths in the 80 % range; width: of that range, median, "
            "in % of the recorded duration; refused: of all pairs; then the errors of slots alone, "
            "and the model's in each world:",
            "",
            table(
                (
                    "question", "pairs", "median", "p90", "sign", "held", "width", "refused",
                    "slots only", "fair", "rough",
                ),
                _by(found, "question"),
            ),
            "",
            "By family of runs:",
            "",
            table(
                (
                    "family", "pairs", "median", "p90", "sign", "held", "width", "refused",
                    "fair", "rough",
                ),
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
        sign, held, refused = (_share(row[key]) for key in ("sign", "held", "refused"))
        shares = (sign, held, _percent(row["width"]), refused)
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


SCORES = ("relevant", "false", "coverage", "plants", "rho", "kind", "cause", "alarms")
PAIRS_HEAD = (
    "top ten relevant", "false", "coverage", "plants found", "ρ", "kind", "cause", "alarms",
)  # fmt: skip


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
                ("method", "pairs", *PAIRS_HEAD),
                [(f"{row['method']}, {row['group']}", *pair_cells(row)) for row in by_runs],
            ),
            "",
            *([alarms, ""] if alarms else []),
            "Ours by kind of change:",
            "",
            table(
                ("planted", "pairs", *PAIRS_HEAD),
                [(row["group"], *pair_cells(row)) for row in by_kind],
            ),
        ]
    )


def pair_cells(row: dict[str, Any]) -> tuple[str, ...]:
    """The number of pairs and the scores of one row."""
    scores = ("" if row[name] is None else f"{row[name]:.2f}" for name in SCORES)
    return (str(row["pairs"]), *scores)


TABLE_III = {"cpu": ((20, 0), (20, 36)), "io": ((16, 0), (9, 29)), "network": ((5, 4), (5, 21))}
"""Anomaly: (TP, FP) of BigRoots, then of PCC."""
TABLE_V = {
    "BigRoots (paper)": (43, 282, 1, 28, 0.6056, 0.0035, 0.9181),
    "PCC (paper)": (47, 237, 46, 24, 0.6619, 0.1625, 0.8022),
}
"""TP, TN, FP, FN, TPR, FPR, ACC over several nodes."""
UNTOLD = (
    "All hosts have one kernel. Processor and disk use of a host are told from its control groups. "
    "Its network is not: traffic over loopback is on no device, so no sample tells of it and no "
    "task waits for it; pressure (PSI) and memory are the machine's."
)
HEAD = ["method", "TP", "TN", "FP", "FN", "TPR", "FPR", "ACC"]


def bigroots(result: dict[str, Any]) -> str:
    """Print what each method found of what was injected."""
    parts = [
        e for e in result["experiments"] if e["methods"]["measured"]["paper"]["tpr"] is not None
    ]
    return "\n\n".join(
        [
            f"{result['stragglers']} stragglers of {result['tasks']} tasks in {result['stages']} "
            f"stages on {result['hosts']} hosts; {result['runs']} runs, seeds "
            f"{', '.join(map(str, result['seeds']))}.",
            "All experiments; an injection that overlaps a straggler affected it, as in the paper:",
            _counts(result["all"]["methods"], "paper"),
            "What could delay the straggler: an injection there for at least half of it; a disk "
            "only where the task reads files, traffic over loopback nobody. Not counted are "
            "shorter overlaps, and the processor while traffic over loopback, or the start of an "
            "injection's processes, took some of it:",
            _counts(result["all"]["methods"], "could_delay"),
            "Multi-node, as in table IV, beside the paper's table V:",
            _multi(parts),
            "By experiment, TP and FP of table III beside the paper's:",
            _single(parts),
            "Area under the ROC curve, one threshold moved (share explained, λp, |ρ|):",
            _areas(result["roc"]),
            _reasons("Missed by measured waits", result["missed"]),
            UNTOLD,
            _reasons("Named by measured waits where nothing was injected", result["wrong"]),
        ]
    )


def _percents(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def _causes_row(name: str, c: dict[str, Any]) -> list[str]:
    counts = [str(c[k]) for k in ("tp", "tn", "fp", "fn")]
    return [name, *counts, *(_percents(c[k]) for k in ("tpr", "fpr", "accuracy"))]


def _counts(methods: dict[str, Any], truth: str) -> str:
    return table(HEAD, [_causes_row(name, of[truth]) for name, of in methods.items()])


def _multi(parts: list[dict[str, Any]]) -> str:
    rows = [
        _causes_row(
            name if part["name"] == "multi-node" else f"{name}, {part['name']}", of["paper"]
        )
        for part in parts
        if part["name"].startswith("multi-node")
        for name, of in part["methods"].items()
    ]
    for name, (tp, tn, fp, fn, tpr, fpr, acc) in TABLE_V.items():
        rows.append([name, *map(str, (tp, tn, fp, fn)), *map(_percents, (tpr, fpr, acc))])
    return table(HEAD, rows)


def _single(parts: list[dict[str, Any]]) -> str:
    methods = list(parts[0]["methods"]) if parts else []
    rows = []
    for part in parts:
        cells = []
        for name in methods:
            c = part["methods"][name]["paper"]
            cells.append(f"{c['tp']} of {c['tp'] + c['fn']}, {c['fp']} wrong")
        paper = TABLE_III.get(part["name"].split("-")[0])
        theirs = [f"{tp}, {fp} wrong" for tp, fp in paper] if paper else ["–", "–"]
        rows.append([part["name"], str(part["stragglers"]), *cells, *theirs])
    head = ["experiment", "stragglers", *methods, "BigRoots (paper)", "PCC (paper)"]
    return table(head, rows)


def _areas(rocs: list[dict[str, Any]]) -> str:
    names = list(rocs[0]["auc"])
    rows = [
        [roc["method"], *(f"{roc['auc'][n]:.3f}" if n in roc["auc"] else "–" for n in names)]
        for roc in rocs
    ]
    return table(["method", *names], rows)


def _reasons(what: str, reasons: dict[str, int]) -> str:
    listed = "; ".join(f"{reason} ({n})" for reason, n in reasons.items())
    return f"{what}: {listed or 'none'}."


def topics_live(result: dict[str, Any]) -> str:
    """Print the topics, what each trouble's stages have of them, and the advice."""
    stages = sum(one["stages"] for one in result["stages"])
    parts = [
        f"{stages} stage attempts of {result['tasks_per_stage']} tasks on {result['hosts']} hosts, "
        f"seed {result['seed']}, Spark {result['spark']}.",
        _topics(result),
        "What was going on in a stage, and how much of its mixture has a topic of that name; "
        "then the same of its stragglers, one by one:",
        table(
            ["trouble", "stages", "with stragglers", "share named so", "mostly named so",
             "stragglers", "named so", "mixture", "blamed for that"],
            [_topics_row(one) for one in result["stages"]],
        ),
        "Advice from the same run:",
        "\n".join(f"- {_plain(one['reason'])} (`{one['kind']}`)" for one in result["advice"])
        or "none.",
    ]  # fmt: skip
    return "\n\n".join(parts)


def _topics(result: dict[str, Any]) -> str:
    rows = [
        [one["name"], _words(one["keywords"]), f"{one['coverage']:.0%}"] for one in result["topics"]
    ]
    found = table(["topic", "keywords", "stages that have it"], rows)
    return found if rows else f"No topics. {result['reason']}"


def _words(keywords: dict[str, float]) -> str:
    return ", ".join(f"`{word}` {weight:.0%}" for word, weight in keywords.items())


def _topics_row(one: dict[str, Any]) -> list[str]:
    is_none = one["trouble"] == "none"
    shares = ", ".join(f"{name} {share:.0%}" for name, share in one["mixture"].items()) or "–"
    return [
        one["trouble"],
        str(one["stages"]),
        str(one["with_stragglers"]),
        "–" if is_none else f"{one['share_named_so']:.0%}",
        "–" if is_none else f"{one['dominant_named_so']} of {one['with_stragglers']}",
        str(one["stragglers"]),
        "–" if is_none else f"{one['stragglers_named_so']}",
        shares,
        _blamed(one["lost_ms_by_blame"]),
    ]


def _blamed(lost: dict[str, float]) -> str:
    """Whom iQCAR blames for what the stragglers' topics lack, in parts of the task time lost."""
    who = {"query": "other queries", "own": "itself", "known": "known causes",
           "unattributed": "nobody"}  # fmt: skip
    total = sum(lost.values())
    ordered = sorted(lost.items(), key=lambda item: -item[1])
    return ", ".join(f"{who[kind]} {ms / total:.0%}" for kind, ms in ordered if ms > 0) or "–"


def _plain(reason: str) -> str:
    return reason.replace("<", "&lt;").replace("|", "\\|")
