"""Tables of what was found of planted stragglers: their causes, and their topics."""

from __future__ import annotations

from typing import Any

from tables import table

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


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def _causes_row(name: str, c: dict[str, Any]) -> list[str]:
    counts = [str(c[k]) for k in ("tp", "tn", "fp", "fn")]
    return [name, *counts, *(_share(c[k]) for k in ("tpr", "fpr", "accuracy"))]


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
        rows.append([name, *map(str, (tp, tn, fp, fn)), *map(_share, (tpr, fpr, acc))])
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
        [one["name"], _words(one["keywords"]), f"{one['coverage']:.0%}", one["models"]]
        for one in result["topics"]
    ]
    found = table(["topic", "keywords", "stages that have it", "found by"], rows)
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
