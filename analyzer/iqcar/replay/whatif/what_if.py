"""Answers a what-if question: per query recorded → predicted, with a range and reasons."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from iqcar.base.limits import MOST_HOSTS
from iqcar.base.units import change_words, percent
from iqcar.replay.loop.device_sharing import DEVICES
from iqcar.replay.loop.task_demands import DISK, NETWORK, PROCESSOR
from iqcar.replay.whatif.edit_cluster import slots_at_most, used_hosts
from iqcar.replay.whatif.intervene import intervene
from iqcar.replay.whatif.model import Model
from iqcar.replay.whatif.outcome import (
    DEVICE_NAMES,
    MEMORY,
    Member,
    Outcome,
    before_and_after,
    operational_laws,
    replay_scenario,
)
from iqcar.replay.whatif.question import Question
from iqcar.replay.whatif.question_parts import RECORDED
from iqcar.replay.whatif.ranges import ANSWERED, blended, far_off, predicted_ranges, reruns
from iqcar.replay.whatif.scenario import Scenario
from iqcar.tables import texts
from iqcar.tables.arrays import Floats, share_of

SCHEMA_VERSION = "1"
"""Changes when a reader of the JSON would have to change."""
MOST_DEVICES = 3 * MOST_HOSTS
"""Devices in the JSON, those in use most."""
SLOWER = 0.05
"""Change from which a query is said to get slower."""
RESOURCES = (*DEVICE_NAMES.values(), "memory", "slots")
UNITS = {DISK: "bytes/s", NETWORK: "bytes/s", PROCESSOR: "cores"}
QUERY_COLUMNS = (
    "query_id", "name", "recorded_ms", "predicted_ms", "low_ms", "high_ms", "change_percent",
    "error_percent", "refused",
    *(f"{resource}_wait_before_ms" for resource in RESOURCES),
    *(f"{resource}_wait_after_ms" for resource in RESOURCES),
)  # fmt: skip


@dataclass(frozen=True)
class WhatIf:
    """What would have happened.

    queries: One row per query that ended: ``query_id``, ``name``, ``recorded_ms``,
        ``predicted_ms``, ``low_ms``, ``high_ms`` (80 %), ``change_percent``, ``error_percent`` of
        the check, ``refused`` (why there is no prediction; else empty), and for disk, network,
        processors, memory (execution memory, where the model shares it) and slots
        ``…_wait_before_ms`` and ``…_wait_after_ms``: the part of the query's duration that its
        tasks spent waiting, in proportion to all their time; NaN where no wait was recorded.
    total: ``queries``, ``recorded_ms``, ``predicted_ms``, ``low_ms``, ``high_ms``,
        ``change_percent`` of the queries that are predicted, ``makespan_before_ms``,
        ``makespan_after_ms``, and ``slot_use_before``, ``slot_use_after``: share of all slots' time
        in which tasks ran.
    self_check: ``median`` and ``worst`` error of the replay of the run as it was, as shares, before
        single tasks were fitted, and the ``query`` that is worst.
    capacities: ``resource``, ``value`` per host (median), ``unit``, ``evidence``, ``identified``,
        and the share of the time that the busiest host's device was in use, ``busy_before`` and
        ``busy_after``.
    devices: Operational laws of each host's devices, before and after: :func:`operational_laws`.
    refused: Why there is no answer, or none for some queries.
    """

    question: Question
    queries: pd.DataFrame
    total: dict[str, Any]
    self_check: dict[str, Any]
    capacities: pd.DataFrame
    devices: pd.DataFrame
    assumptions: tuple[str, ...]
    refused: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return it as it stands in JSON (``iqcar schema whatif``)."""
        return {
            "schema_version": SCHEMA_VERSION,
            "do": self.question.to_dict(),
            "self_check": self.self_check,
            "capacities": self.capacities.to_dict("records"),
            "devices": self.devices.head(MOST_DEVICES).to_dict("records"),
            "queries": [
                {
                    **{name: row[name] for name in QUERY_COLUMNS[:8]},
                    "refused": row["refused"] or None,
                    "waits": {
                        resource: [
                            row[f"{resource}_wait_before_ms"], row[f"{resource}_wait_after_ms"],
                        ]
                        for resource in RESOURCES
                    },
                }
                for row in self.queries.to_dict("records")
            ],
            "total": self.total,
            "assumptions": list(self.assumptions),
            "refused": list(self.refused),
        }  # fmt: skip

    def __repr__(self) -> str:
        """Say what it comes to."""
        change = self.total["change_percent"]
        said = "no answer" if change is None else f"{change_words(change)} for all queries"
        return f"<WhatIf {self.question.sentence()}: {said}>"


def answer(
    model: Model,
    question: Question,
    find: Callable[[str, str], Sequence[int]],
    progress: Callable[[int, int], None] | None = None,
) -> WhatIf:
    """Answer a question about a recorded run.

    Raises UsageError if a query or host is not there, or too little would be left.

    find: Rows of the queries that a name means; called with the name and the option.
    progress: Called with the replays done and the replays in all, after each.
    """
    if question.starts == RECORDED:
        model = model.with_recorded_starts
    done = intervene(model.scenario, question, find)
    first = model.members[0]
    others: list[tuple[Scenario, Scenario | None]] = [(scenario, None) for scenario in done.ends]
    if model.other is not None:
        others.append((intervene(model.other, question, find).scenario, model.other))
    if question and model.no_memory_waits is not None:
        others.append((intervene(model.no_memory_waits, question, find).scenario, None))
    count = len(model.members) + len(others)

    def replayed(number: int, scenario: Scenario, member: Member, was: Scenario | None) -> _Pair:
        base = model.base(member) if was is None else replay_scenario(was, member)
        then = replay_scenario(scenario, member)
        if progress is not None:
            progress(number + 1, count)
        return base, then, blended(base.duration_ms, then.duration_ms, model.recorded_ms)

    pairs = [replayed(n, done.scenario, member, None) for n, member in enumerate(model.members)]
    before, after = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    outer = [
        replayed(n, scenario, first, was)[2]
        for n, (scenario, was) in enumerate(others, len(model.members))
    ]
    predicted, low, high = predicted_ranges(model, np.array([pair[2] for pair in pairs]), outer)
    waited, would_wait = _waits_known(model, before, after)
    queries = _query_frame(model, (predicted, low, high), waited, would_wait)
    gone = set()
    for name in question.remove:
        gone |= set(find(name, "--remove"))
    queries = queries[~queries.index.isin(gone)]
    refused = _refusals(model, queries)
    if refused and not np.isfinite(queries["predicted_ms"]).any():
        queries = queries.assign(**dict.fromkeys(("low_ms", "high_ms", "change_percent"), np.nan))
    return WhatIf(
        question=question, queries=queries,
        total={
            **_total(queries, before, after), "slot_use_before": slot_use(model.scenario, before),
            "slot_use_after": slot_use(done.scenario, after),
        },
        self_check=self_check(model), capacities=_capacities(model.scenario, before, after),
        devices=before_and_after(
            operational_laws(model.scenario, before[0]), operational_laws(done.scenario, after[0])
        ),
        assumptions=(
            *done.assumptions, *_other_explanation(model), *far_off(model), *reruns(model),
        ),
        refused=refused,
    )  # fmt: skip


_Pair = tuple[Outcome, Outcome, Floats]
"""The replay without and with the change, and the durations that follow."""


def _waits_known(
    model: Model, before: list[Outcome], after: list[Outcome]
) -> tuple[Floats, Floats]:
    """Return the mean waits of each query before and after; NaN where no wait was recorded."""
    waited, would_wait = _mean_waits(before), _mean_waits(after)
    if len(model.scenario.memory) == 0:
        waited[:, MEMORY] = would_wait[:, MEMORY] = np.nan
    if model.unrecorded is not None:
        waited[:, :DEVICES][model.unrecorded] = np.nan
        # Whether tasks get processors follows from the model; what they move does not.
        unmodelled = model.unrecorded & (np.arange(model.unrecorded.shape[1]) != PROCESSOR)
        would_wait[:, :DEVICES][unmodelled] = np.nan
    return waited, would_wait


def _other_explanation(model: Model) -> Iterable[str]:
    if model.no_memory_waits is not None:
        yield (
            "tasks wait as long for execution memory as they did, since what they held does not "
            "explain these waits: the range covers that they wait no more"
        )
    if model.other is None:
        return
    changed = (model.other.capacity != model.scenario.capacity).any(axis=0)
    names = [name for device, name in DEVICE_NAMES.items() if changed[device]]
    yield (
        f"whether tasks waited for each other in {' and '.join(names)} cannot be told: the range "
        "covers that they did"
    )


def _mean_waits(outcomes: list[Outcome]) -> Floats:
    """Waits of each query as parts of its duration, mean over replays."""
    parts = [
        share_of(one.wait_ms, np.broadcast_to(one.task_ms[:, None], one.wait_ms.shape))
        * np.nan_to_num(one.duration_ms)[:, None]
        for one in outcomes
    ]
    mean: Floats = np.mean(parts, axis=0)
    return mean


def _query_frame(
    model: Model, predictions: tuple[Floats, Floats, Floats], before: Floats, after: Floats
) -> pd.DataFrame:
    """One row per query that ended, by row of ``queries``."""
    queries = model.scenario.tables.queries
    predicted, low, high = predictions
    recorded, error = model.recorded_ms, model.error
    run_is_off = not model.median_error <= ANSWERED
    off = np.abs(error) > ANSWERED
    most = f"the replay of the run as it was is off by more than {percent(ANSWERED)}"
    refused = np.where(off, most, "")
    refused = np.where(
        np.isfinite(predicted), refused, "it cannot be replayed: its tasks or slots are not known"
    )
    if run_is_off:
        refused = np.full(len(queries), "the model does not reproduce this run")
    predicted, low, high = (
        np.where(refused == "", values, np.nan) for values in (predicted, low, high)
    )
    frame = pd.DataFrame(
        {
            "query_id": texts(queries, "query_id"), "name": texts(queries, "name"),
            "recorded_ms": recorded, "predicted_ms": predicted, "low_ms": low, "high_ms": high,
            "change_percent": 100.0 * (predicted / recorded - 1.0), "error_percent": 100.0 * error,
            "refused": refused,
            **{f"{name}_wait_before_ms": before[:, k] for k, name in enumerate(RESOURCES)},
            **{f"{name}_wait_after_ms": after[:, k] for k, name in enumerate(RESOURCES)},
        }
    )  # fmt: skip
    return frame[np.isfinite(recorded) & (queries["tasks"].to_numpy(np.int64) > 0)]


def _refusals(model: Model, queries: pd.DataFrame) -> tuple[str, ...]:
    if not np.isfinite(model.median_error):
        return (
            "no answer: no query ended that ran tasks, so nothing tells how well a replay does",
        )
    if not model.median_error <= ANSWERED:
        return (
            "no answer: the replay of the run as it was is off by "
            f"{percent(model.median_error)} (median), so nothing that it says can be trusted",
        )
    some = queries[queries["refused"] != ""]
    return tuple(
        f"{count} quer{'y is' if count == 1 else 'ies are'} not answered: {why}"
        for why, count in some["refused"].value_counts().items()
    )


def self_check(model: Model) -> dict[str, Any]:
    """How well the replay of the run as it was reproduces it, before tasks were fitted."""
    off = np.abs(model.error)
    if not np.isfinite(off).any():
        return {"median": None, "worst": None, "query": ""}
    worst = int(np.nanargmax(off))
    return {
        "median": model.median_error,
        "worst": float(off[worst]),
        "query": texts(model.scenario.tables.queries, "name")[worst],
    }


def _total(queries: pd.DataFrame, before: list[Outcome], after: list[Outcome]) -> dict[str, Any]:
    said = queries[queries["refused"] == ""]
    recorded, predicted = float(said["recorded_ms"].sum()), float(said["predicted_ms"].sum())
    # Errors of single queries are not independent: the range of the sum is the sum of the ranges,
    # narrowed as if half of each were.
    half = 0.5 * (said["high_ms"] - said["low_ms"])
    width = 0.5 * float(half.sum()) + 0.5 * float(np.sqrt((half**2).sum()))
    return {
        "queries": len(said),
        "recorded_ms": recorded,
        "predicted_ms": predicted if len(said) else None,
        "low_ms": max(predicted - width, 0.0) if len(said) else None,
        "high_ms": predicted + width if len(said) else None,
        "change_percent": 100.0 * (predicted / recorded - 1.0) if recorded > 0 else None,
        "slower": int((said["change_percent"] > 100 * SLOWER).sum()),
        "makespan_before_ms": _makespan(before),
        "makespan_after_ms": _makespan(after),
    }


def _makespan(outcomes: list[Outcome]) -> float | None:
    ended = [one for one in outcomes if np.isfinite(one.duration_ms).any()]
    lasted = [float(np.nanmax(one.end_ms) - np.nanmin(one.start_ms)) for one in ended]
    return float(np.mean(lasted)) if lasted else None


def slot_use(scenario: Scenario, outcomes: list[Outcome]) -> float | None:
    """Share of the time of all slots, as many as there were at most, in which tasks ran."""
    lasted = _makespan(outcomes)
    if not lasted:
        return None
    ran = np.mean([(one.task_ms - one.wait_ms[:, -1]).sum() for one in outcomes])
    return float(ran) / (lasted * slots_at_most(scenario.slots))


def _capacities(scenario: Scenario, before: list[Outcome], after: list[Outcome]) -> pd.DataFrame:
    """Operational laws, U = X · D: capacity and use of each kind of device."""
    hosts = used_hosts(scenario.slots)
    rows = []
    for device, name in DEVICE_NAMES.items():
        value = scenario.capacity[hosts, device]
        known = value[np.isfinite(value)]
        if len(known) == 0:
            continue
        evidence = scenario.evidence[hosts, device]
        per_second = 1e3 if UNITS[device] == "bytes/s" else 1.0
        rows.append(
            {
                "resource": name,
                "value": float(np.median(known)) * per_second,
                "unit": UNITS[device],
                "evidence": str(evidence[0]),
                "identified": bool((evidence != "assumed").all()),
                "busy_before": _busiest(before, device),
                "busy_after": _busiest(after, device),
            }
        )
    return pd.DataFrame(
        rows,
        columns=[
            "resource", "value", "unit", "evidence", "identified", "busy_before", "busy_after",
        ],
    )  # fmt: skip


def _busiest(outcomes: list[Outcome], device: int) -> float:
    used = [one.devices.utilisation[:, device].max(initial=0.0) for one in outcomes]
    return float(np.mean(used))
