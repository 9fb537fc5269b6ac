"""Score what a comparison says of live sets of runs against what was changed between them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from compare_live_arms import NEIGHBOUR_NAME, Arm

import iqcar
from iqcar.comparison.comparison import Comparison

Durations = Mapping[str, Sequence[float]]
"""Seconds of a query in each run, by its name, by the driver's clock."""


def arm_result(
    arm: Arm, comparison: Comparison, before: Durations, after: Durations
) -> dict[str, Any]:
    """What was planted in each query, how long it took, and what the comparison says of it."""
    said = said_of(comparison)
    names = [*before, *(name for name in said if name not in before)]
    return {
        "arm": arm.name,
        "change": arm.change,
        "queries": [
            {
                "query": name,
                "planted": list(
                    ("added",) if name == NEIGHBOUR_NAME else arm.planted.get(name, ())
                ),
                "before_s": [round(value, 3) for value in before.get(name, ())],
                "after_s": [round(value, 3) for value in after.get(name, ())],
                **said[name],
            }
            for name in names
        ],
        "settings": [str(one) for one in comparison.different.settings],
        "versions": comparison.different.versions,
        "doubts": list(comparison.doubts),
    }


def said_of(comparison: Comparison) -> dict[str, dict[str, Any]]:
    """Verdict, kind and causes of each query, by name."""
    effects, changes, causes = comparison.effects, comparison.changes, comparison.causes
    found = {}
    for category in comparison.queries.tolist():
        effect = effects.iloc[category]
        found[comparison.name(category)] = {
            "verdict": str(effect["verdict"]),
            "listed": False,
            "kind": "",
            "causes": [],
            "before_ms": round(float(effect["before_ms"]), 1),
            "after_ms": round(float(effect["after_ms"]), 1),
            "runs_needed": int(effect["runs_needed"]),
            "stages": [],
        }
    for row, change in enumerate(changes.to_dict("records")):
        name = comparison.name(int(change["category"]))
        why = causes[causes["change"] == row]
        said = {
            "kind": str(change["kind"]),
            "causes": list(zip(why["cause"], why["sentence"], strict=True)),
            "evidence": str(change["evidence"]),
            "q_value": None if np.isnan(change["q_value"]) else round(change["q_value"], 4),
        }
        if change["parent"] < 0:
            last = found[name]
            last |= {"listed": True, **said}
        else:
            last["stages"].append({"stage": name, **said})
    return found


def quiet_results(sets: Mapping[str, iqcar.Tables]) -> list[dict[str, Any]]:
    """Compare equal sets of runs that were not measured in turns: each two of them."""
    found = []
    for first, second in itertools.combinations(sets, 2):
        comparison = iqcar.compare(sets[first], sets[second])
        said = said_of(comparison)
        found.append(
            {
                "before": first,
                "after": second,
                "listed": [
                    {"query": name, "kind": one["kind"], "causes": [c for c, _ in one["causes"]]}
                    for name, one in said.items()
                    if one["listed"]
                ],
            }
        )
    return found
