"""The result of the BigRoots experiment as Markdown tables, next to the paper's."""

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
HEAD = ["method", "TP", "TN", "FP", "FN", "TPR", "FPR", "ACC"]


def bigroots(result: dict[str, Any]) -> str:
    """Print what each method found of what was injected."""
    parts = [
        e for e in result["experiments"] if e["methods"]["measured"]["paper"]["tpr"] is not None
    ]
    return "\n\n".join(
        [
            f"{result['stragglers']} stragglers of {result['tasks']} tasks in {result['stages']} "
            f"stages on {result['hosts']} hosts; seed {result['seed']}.",
            "All experiments; an injection that overlaps a straggler affected it, as in the paper:",
            _counts(result["all"]["methods"], "paper"),
            "Clear decisions only (an overlap of at least half of the straggler, or none; not "
            "during traffic over loopback):",
            _counts(result["all"]["methods"], "clear"),
            "Multi-node, as in table IV, beside the paper's table V:",
            _multi(parts),
            "By experiment, TP and FP of table III beside the paper's:",
            _single(parts),
            "Area under the ROC curve, one threshold moved (share explained, λp, |ρ|):",
            _areas(result["roc"]),
            _reasons("Missed by measured waits", result["missed"]),
            _reasons("Named by measured waits where nothing was injected", result["wrong"]),
        ]
    )


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def _row(name: str, c: dict[str, Any]) -> list[str]:
    counts = [str(c[k]) for k in ("tp", "tn", "fp", "fn")]
    return [name, *counts, *(_share(c[k]) for k in ("tpr", "fpr", "accuracy"))]


def _counts(methods: dict[str, Any], truth: str) -> str:
    return table(HEAD, [_row(name, of[truth]) for name, of in methods.items()])


def _multi(parts: list[dict[str, Any]]) -> str:
    rows = [
        _row(name if part["name"] == "multi-node" else f"{name}, {part['name']}", of["paper"])
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
