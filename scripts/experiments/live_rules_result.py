"""Figures of the live-rules experiment: latency, relief, what the intruder pays, oscillations."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from iqcar.comparison.rule_verdict import judge_effect

BASE = "no rules"
RELIEF_RUNS = 5
"""A phase is relieved from the first short query on that waits for one task of the intruder at
most, if the median of it and the next four does, too: no scheduler takes back a slot."""

Run = Mapping[str, Any]


def figures(measured: Run) -> dict[str, Any]:
    """Figures of one application.

    measured: ``began_ms``, ``ran`` (name, start_ms, end_ms of each query), ``phases`` (first and
    last second of each intrusion), ``intruder``, ``intruder_task_s``, ``journal`` (lines of the
    live loop), ``outside_load``.
    Returns ``busy_s`` and ``quiet_s``: durations of the short queries that came while the intruder
    was there, and before it came; ``intruder_s``: its durations; per phase seconds to the rule and
    to relief, None without; ``changes`` and ``oscillations``.
    """
    began, phases = measured["began_ms"], measured["phases"]
    rows = [
        (one["name"], (one["start_ms"] - began) / 1e3, (one["end_ms"] - one["start_ms"]) / 1e3)
        for one in sorted(measured["ran"], key=lambda one: one["start_ms"])
    ]
    short = [(at, took) for name, at, took in rows if name != measured["intruder"]]
    quiet = [took for at, took in short if at < phases[0][0]]
    busy = [took for at, took in short if any(a <= at < b for a, b in phases)]
    changes = [
        {
            "at_s": (_epoch_ms(line["time"]) - began) / 1e3,
            "event": line["event"],
            "rule": f"{line['rule']['rule-type']} for {line['rule']['query_name']}",
            "reason": line["reason"],
        }
        for line in measured["journal"]
        if line["event"] in ("write", "take-back")
    ]
    most = float(np.median(quiet)) + measured["intruder_task_s"]
    return {
        "quiet_s": quiet,
        "busy_s": busy,
        "intruder_s": [took for name, _, took in rows if name == measured["intruder"]],
        "to_rule_s": [_first_rule(changes, a, b) for a, b in phases],
        "to_relief_s": [
            _relief([(at - a, took) for at, took in short if a <= at < b], most) for a, b in phases
        ],
        "changes": changes,
        "oscillations": oscillations(changes, phases),
        "outside_load": measured["outside_load"],
    }


def _epoch_ms(time: str) -> float:
    return 1e3 * datetime.fromisoformat(time).timestamp()


def _first_rule(changes: Iterable[Run], first: float, last: float) -> float | None:
    """Seconds from an intrusion to the first rule; 0 where one from before still acts."""
    acting = 0
    for change in changes:
        if first <= change["at_s"] < last and change["event"] == "write" and not acting:
            return float(change["at_s"] - first)
        if change["at_s"] < first:
            acting += 1 if change["event"] == "write" else -1
    return 0.0 if acting else None


def _relief(short: Sequence[tuple[float, float]], most: float) -> float | None:
    """Seconds from an intrusion until short queries take no longer than this."""
    slow = [number for number, (_, took) in enumerate(short) if took > most]
    for number in range(slow[0] if slow else 0, len(short) - RELIEF_RUNS + 1):
        next_ones = [took for _, took in short[number : number + RELIEF_RUNS]]
        if next_ones[0] <= most and float(np.median(next_ones)) <= most:
            return float(short[number][0])
    return None


def oscillations(changes: Sequence[Run], phases: Sequence[Sequence[float]]) -> int:
    """Count rules taken back and written again although the intruder had not gone meanwhile."""
    count = 0
    for number, change in enumerate(changes):
        if change["event"] != "take-back":
            continue
        again = [
            one["at_s"]
            for one in changes[number + 1 :]
            if one["event"] == "write" and one["rule"] == change["rule"]
        ]
        came = [a for a, _ in phases if again and change["at_s"] <= a <= again[0]]
        gone = [b for _, b in phases if b <= change["at_s"]]
        count += bool(again) and not (came and gone)
    return count


def result(found: Mapping[str, Mapping[str, Sequence[Run]]]) -> dict[str, Any]:
    """Figures by cluster and arm over all rounds, with the verdict on each arm.

    found: mapping of cluster to mapping of arm to sequence of :func:`figures`
    """
    clusters = {}
    for cluster, arms in found.items():
        if BASE not in arms:
            continue
        summed = {arm: _summed(rounds) for arm, rounds in arms.items()}
        for arm, one in summed.items():
            base = summed[BASE]
            judged = judge_effect(
                _change(base["busy_median_s"], one["busy_median_s"]),
                _change(base["quiet_median_s"], one["quiet_median_s"]),
                (base["outside_load"], one["outside_load"]),
            )
            if arm != BASE:
                one["verdict"] = judged.verdict.value
                one["sentence"] = f"short queries {judged.sentence}"
        clusters[cluster] = {"rounds": max(map(len, arms.values())), "arms": summed}
    return {"clusters": clusters}


def _summed(rounds: Sequence[Run]) -> dict[str, Any]:
    busy, quiet, intruder = (
        np.array([took for one in rounds for took in one[name]])
        for name in ("busy_s", "quiet_s", "intruder_s")
    )
    loads = [one["outside_load"] for one in rounds if one["outside_load"] is not None]
    return {
        "busy_median_s": float(np.median(busy)),
        "busy_p90_s": float(np.quantile(busy, 0.9)),
        "busy_runs": len(busy),
        "quiet_median_s": float(np.median(quiet)),
        "intruder_median_s": float(np.median(intruder)),
        "intruder_runs": len(intruder) / len(rounds),
        "to_rule_s": [seconds for one in rounds for seconds in one["to_rule_s"]],
        "to_relief_s": [seconds for one in rounds for seconds in one["to_relief_s"]],
        "changes": [one["changes"] for one in rounds],
        "oscillations": sum(one["oscillations"] for one in rounds),
        "outside_load": float(np.mean(loads)) if loads else None,
    }


def _change(before: float, after: float) -> float:
    return 100 * (after / before - 1.0)


def load(folder: Path, arms: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """Figures of the rounds that were measured, by arm, in the order of the arms."""
    found: dict[str, list[dict[str, Any]]] = {}
    for arm in arms:
        for file in sorted(folder.glob(f"*/{arm.replace(' ', '_')}/measured.json")):
            found.setdefault(arm, []).append(figures(json.loads(file.read_text("utf-8"))))
    return found
