"""Score the predictions of the live what-if experiment against what was measured."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

NOTICED = 0.05
"""Change of a duration, measured, from which its sign counts."""
METHODS = {
    "model": "predicted_s",
    "nothing changes": "recorded_s",
    "slots only": "slots_s",
    "blame": "blame_s",
}
Row = dict[str, Any]


def rows(rounds: Sequence[Mapping[str, Any]]) -> list[Row]:
    """One row per round, question and query: the predictions beside what was measured.

    ``rerun_s`` is relative to the runs as it was next before and after, so that a machine that
    others use more or less meanwhile hits both: measured · recorded / their mean.
    """
    found: list[Row] = []
    for number, one in enumerate(rounds):
        for name in one["order"]:
            asked = "again" if name.startswith("again") else name
            for query, said in one["answers"][asked].items():
                took = one["measured_s"][name].get(query)
                if took is None:
                    continue
                base = statistics.mean(_as_it_was(one, name, query, said["recorded_s"]))
                found.append(
                    {
                        "round": number,
                        "question": asked,
                        "kind": one["kinds"][asked],
                        "query": query,
                        "measured_s": took,
                        "base_s": base,
                        "rerun_s": took * said["recorded_s"] / base,
                        **said,
                    }
                )
    for row in found:
        alike = [r for r in found if (r["question"], r["query"]) == (row["question"], row["query"])]
        change = statistics.mean(r["measured_s"] / r["base_s"] for r in alike)
        row["mean_s"] = change * row["recorded_s"]
    return found


def _as_it_was(one: Mapping[str, Any], name: str, query: str, recorded_s: float) -> list[float]:
    """Seconds of a query in the runs without intervention next before and after."""
    order, measured = one["order"], one["measured_s"]
    at = order.index(name)
    same = [k for k, other in enumerate(order) if other.startswith("again") and k != at]
    before = [measured[order[k]][query] for k in same if k < at][-1:] or [recorded_s]
    after = [measured[order[k]][query] for k in same if k > at][:1]
    return [*before, *after]


def errors(found: Iterable[Row], method: str, truth: str) -> list[float]:
    """|predicted − measured| as shares of the recorded durations."""
    column = METHODS[method]
    return [
        abs(row[column] - row[truth]) / row["recorded_s"]
        for row in found
        if row["predicted_s"] is not None and np.isfinite(row[column])
    ]


def of_means(found: Sequence[Row], method: str) -> list[float]:
    """Errors of the mean over the rounds: what is left once luck is averaged out."""
    column, said = METHODS[method], [row for row in found if row["predicted_s"] is not None]
    result = []
    for key in sorted({(row["question"], row["query"]) for row in said}):
        mine = [row for row in said if (row["question"], row["query"]) == key]
        values = [
            statistics.mean(row[c] for row in mine) for c in (column, "rerun_s", "recorded_s")
        ]
        if np.isfinite(values[0]):
            result.append(abs(values[0] - values[1]) / values[2])
    return result


def score(found: Sequence[Row]) -> dict[str, Any]:
    """All figures of one kind of question."""
    known = [row for row in found if row["predicted_s"] is not None]
    scored: dict[str, Any] = {
        "pairs": len(found),
        "refused": len(found) - len(known),
        "methods": {},
    }
    removed = all(row["kind"] == "remove" for row in found)
    for method in METHODS:
        if method == "blame" and not removed:
            continue
        one, mean = errors(known, method, "rerun_s"), of_means(known, method)
        if one and mean:
            scored["methods"][method] = {
                "median": float(np.median(one)),
                "p90": float(np.quantile(one, 0.9)),
                "mean_median": float(np.median(mean)),
                "mean_p90": float(np.quantile(mean, 0.9)),
                "sign": sign(known, METHODS[method]),
            }
    if known:
        scored["change"] = float(
            np.median([abs(row["rerun_s"] / row["recorded_s"] - 1.0) for row in known])
        )
        scored["covered_one"] = covered(known, "rerun_s")
        scored["covered_mean"] = covered(known, "mean_s")
    return scored


def sign(known: Iterable[Row], column: str) -> float | None:
    """Share of the noticed changes that were predicted in their direction."""
    right = [
        (row[column] - row["recorded_s"]) * (row["rerun_s"] - row["recorded_s"]) > 0
        for row in known
        if abs(row["rerun_s"] / row["recorded_s"] - 1.0) > NOTICED
    ]
    return statistics.mean(right) if right else None


def covered(known: Sequence[Row], truth: str) -> float:
    """Share of the ranges that hold what was measured."""
    return statistics.mean(row["low_s"] <= row[truth] <= row["high_s"] for row in known)


def result(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """Figures by cluster and kind of question, and every single prediction."""
    content: dict[str, Any] = {"clusters": {}}
    for cluster, rounds in found.items():
        if not rounds:
            continue
        every = rows(rounds)
        kinds = list(dict.fromkeys(row["kind"] for row in every))
        asked = [row for row in every if row["kind"] != "nothing"]
        content["clusters"][cluster] = {
            "rounds": len(rounds),
            "self_check": [one["self_check"] for one in rounds],
            "kinds": {kind: score([row for row in every if row["kind"] == kind]) for kind in kinds},
            "all": score(asked),
            "rows": [
                {k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()}
                for row in every
            ],
        }
    return content
