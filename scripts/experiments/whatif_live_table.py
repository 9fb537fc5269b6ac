"""Print the result of the live what-if experiment as Markdown."""

from __future__ import annotations

from typing import Any

from tables import table

KINDS = {
    "nothing": "nothing (the same mix again)",
    "remove": "each source removed in turn",
    "start": "the hog 3 s later",
    "pool": "q39b in a FAIR pool of weight 3",
    "cap": "the hog held at one task",
    "cores": "one core for two",
    "slots": "`local[3]` for `local[2]`",
    "host": "one host lost",
    "all": "all but nothing",
}


CLUSTERS = {
    "embedded": "Embedded, `local[2]`",
    "crowded": "Embedded, `local[4]` on two processors",
    "standalone": "Standalone, two workers with one slot each",
}


def whatif_live(result: dict[str, Any]) -> str:
    """Errors by cluster and kind of question."""
    parts = []
    for cluster, found in result["clusters"].items():
        kinds = {**found["kinds"], "all": found["all"]}
        rows = []
        for kind, name in KINDS.items():
            if kind in kinds:
                rows.append(question_row(name, kinds[kind]))
        head = [
            "do", "pairs", "refused", "measured change", "model", "sign",
            "range holds a rerun", "… the mean", "nothing changes", "slots only", "blame",
            "means: model", "means: nothing changes",
        ]  # fmt: skip
        checks = ", ".join(f"{100 * one['median']:.1f} %" for one in found["self_check"])
        parts.append(
            f"{CLUSTERS[cluster]}; rounds: {found['rounds']}; self-checks (median): {checks}.\n\n"
            + table(head, rows)
        )
    return (
        "Errors are |predicted − measured| in % of the recorded duration, median and 90 % quantile "
        "over rounds and queries, against one rerun, which is taken relative to the runs without "
        "intervention next before and after it, as others used the machine meanwhile; in the last "
        "two columns means over the rounds are compared. Sign: of changes above 5 %, those whose "
        "direction was said. Measured change: median without sign.\n\n" + "\n\n".join(parts)
    )


def question_row(name: str, kind: dict[str, Any]) -> list[str]:
    """Errors and ranges of one kind of question."""
    methods = kind["methods"]
    model = methods.get("model", {})
    return [
        name,
        str(kind["pairs"]),
        str(kind["refused"]),
        _percent(kind.get("change")),
        _errors(methods, "model"),
        _percent(model.get("sign")),
        _percent(kind.get("covered_one")),
        _percent(kind.get("covered_mean")),
        _errors(methods, "nothing changes"),
        _errors(methods, "slots only"),
        _errors(methods, "blame"),
        _errors(methods, "model", "mean_"),
        _errors(methods, "nothing changes", "mean_"),
    ]


def _errors(methods: dict[str, Any], method: str, prefix: str = "") -> str:
    one = methods.get(method)
    if one is None:
        return ""
    return f"{100 * one[prefix + 'median']:.0f}, {100 * one[prefix + 'p90']:.0f}"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.0f} %"
