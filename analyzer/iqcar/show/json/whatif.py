"""Declares and writes answers to what-if questions as JSON."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, UnsetType

from iqcar.base.files.json_text import json_bytes
from iqcar.replay.whatif.plan_capacity import Plan
from iqcar.replay.whatif.removal_blame import RemovalBlame
from iqcar.replay.whatif.what_if import SCHEMA_VERSION, WhatIf
from iqcar.show.json.described import schema_text
from iqcar.version import __version__

Resource = Annotated[Literal["disk", "network", "processors"], "Kind of device."]
LowMs = Annotated[float | None, "Lower end of the 80 % range."]


class WhatIfDo(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a question changes."""

    remove: Annotated[list[str] | UnsetType, "Queries that do not run."] = UNSET
    start: Annotated[dict[str, float] | UnsetType, "Milliseconds that queries start later."] = UNSET
    cap: Annotated[dict[str, int] | UnsetType, "Most tasks of a query at once."] = UNSET
    slots: Annotated[int | UnsetType, "Change of the number of slots."] = UNSET
    slots_in_all: Annotated[int | UnsetType, "Number of slots."] = UNSET
    slots_of: Annotated[
        dict[str, int] | UnsetType, "Change of the number of slots, by application."
    ] = UNSET
    slots_in_all_of: Annotated[dict[str, int] | UnsetType, "Number of slots, by application."] = (
        UNSET
    )
    executors: Annotated[int | UnsetType, "Number of executors."] = UNSET
    executors_of: Annotated[dict[str, int] | UnsetType, "Number of executors, by application."] = (
        UNSET
    )
    hosts: Annotated[int | UnsetType, "Hosts more; negative: fewer."] = UNSET
    host_loss: Annotated[list[str] | UnsetType, "Hosts that are not there."] = UNSET
    disk: Annotated[float | UnsetType, "Factor of the capacity of disks."] = UNSET
    network: Annotated[float | UnsetType, "Factor of the capacity of networks."] = UNSET
    cpu: Annotated[float | UnsetType, "Factor of the number of processors."] = UNSET
    host_cores: Annotated[float | UnsetType, "Processors of every host."] = UNSET
    pool: Annotated[dict[str, int] | UnsetType, "Weight of a FAIR pool of its own, by query."] = (
        UNSET
    )
    pool_weight: Annotated[
        dict[str, int] | UnsetType, "Weight of a pool that there is, by pool."
    ] = UNSET
    pool_min_share: Annotated[
        dict[str, int] | UnsetType, "minShare of a pool that there is, by pool."
    ] = UNSET
    mode: Annotated[Literal["FAIR", "FIFO"] | UnsetType, "Scheduler mode."] = UNSET
    mode_of: Annotated[
        dict[str, Literal["FAIR", "FIFO"]] | UnsetType, "Scheduler mode, by application."
    ] = UNSET
    partitions: Annotated[
        dict[str, int] | UnsetType, "Tasks of stages that read a shuffle, by query."
    ] = UNSET
    scale: Annotated[dict[str, float] | UnsetType, "Factor of the data, by query."] = UNSET
    no_skew: Annotated[
        list[str] | UnsetType, "Queries whose tasks have equal work within a stage."
    ] = UNSET
    no_gc: Annotated[bool | UnsetType, "Whether nothing is collected."] = UNSET
    starts: Annotated[
        Literal["recorded", "chained"] | UnsetType,
        "Whether queries start when they did, or after the one that they waited for.",
    ] = UNSET


class WhatIfSelfCheck(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How far the replay of what was recorded is off."""

    median: Annotated[float | None, "Median over queries."]
    worst: Annotated[float | None, "Worst query."]
    query: Annotated[str, "Name of the worst."]


class WhatIfCapacity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Capacity of a device."""

    resource: Resource
    value: Annotated[float | None, "Capacity per host, median over hosts."]
    unit: Annotated[Literal["bytes/s", "cores"], "Unit of the capacity."]
    evidence: Annotated[Literal["measured", "inferred", "assumed"], "How it is known."]
    identified: Annotated[bool, "Whether the run tells it."]
    busy_before: Annotated[float | None, "Share of the run, U = X · D, as it was."]
    busy_after: Annotated[float | None, "The same after the change."]


class WhatIfWait(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Waits by resource, recorded and predicted."""

    disk: Annotated[tuple[float | None, float | None], "Waiting for disk."]
    network: Annotated[tuple[float | None, float | None], "Waiting for network."]
    processors: Annotated[tuple[float | None, float | None], "Waiting for processors."]
    memory: Annotated[
        tuple[float | None, float | None] | UnsetType,
        "Waiting for execution memory; null where the model does not share it.",
    ] = UNSET
    slots: Annotated[tuple[float | None, float | None], "Waiting for slots."]


class WhatIfQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A query, recorded and predicted."""

    query_id: Annotated[str, "Id of the query."]
    name: Annotated[str, "Its name."]
    recorded_ms: Annotated[float | None, "Duration as recorded."]
    predicted_ms: Annotated[float | None, "Predicted duration."]
    low_ms: LowMs
    high_ms: Annotated[float | None, "Upper end."]
    change_percent: Annotated[float | None, "Change of the duration."]
    error_percent: Annotated[float | None, "Error of the self-check."]
    refused: Annotated[str | None, "Why there is no prediction."]
    waits: Annotated[WhatIfWait, "Part of the duration spent waiting, before and after."]


class WhatIfTotal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All queries together."""

    queries: Annotated[int, "Their number."]
    recorded_ms: Annotated[float | None, "Recorded."]
    predicted_ms: Annotated[float | None, "Predicted."]
    low_ms: Annotated[float | None, "Lower end of the range."]
    high_ms: Annotated[float | None, "Upper end."]
    change_percent: Annotated[float | None, "Change."]
    slower: Annotated[int, "Queries that get slower by more than 5 %."]
    makespan_before_ms: Annotated[
        float | None, "From the first start to the last end, replayed as it was."
    ]
    makespan_after_ms: Annotated[float | None, "The same after the change."]
    slot_use_before: Annotated[
        float | None, "Share of the time of all slots in which tasks ran, as it was."
    ]
    slot_use_after: Annotated[float | None, "The same after the change."]


class WhatIfValue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One size of what is planned."""

    value: Annotated[int, "The number."]
    total_ms: Annotated[float | None, "Sum of the durations of all queries."]
    low_ms: LowMs
    high_ms: Annotated[float | None, "Upper end."]
    p80_ms: Annotated[float | None, "80 % of the queries take at most this long."]
    makespan_ms: Annotated[float | None, "From the first start to the last end."]
    slot_use: Annotated[float | None, "Share of the time of all slots in which tasks ran."]
    slots: Annotated[int, "Slots in all."]
    cost: Annotated[float | None, "Value × hours × price."]
    refused: Annotated[int, "Queries that are not predicted."]


class WhatIfPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A plan of capacity."""

    of_what: Annotated[Literal["executors", "slots"], "What is varied."]
    values: Annotated[list[WhatIfValue], "One entry per number, ascending."]
    knee: Annotated[int | None, "Number from which more gains little; null if more gains nothing."]
    recorded: Annotated[int, "Number in the recorded run, at its most."]
    price: Annotated[float | None, "Of one for an hour."]
    self_check: Annotated[
        WhatIfSelfCheck,
        "How well a replay reproduces the run as it was, before single tasks were fitted: errors "
        "as shares.",
    ]
    assumptions: Annotated[list[str], "What the plan rests on."]
    refused: Annotated[list[str], "What is not answered, and why."]


class WhatIfSource(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a query lost to one source, by removal."""

    query_id: Annotated[str, "Id of the source."]
    name: Annotated[str, "Its name."]
    shapley_ms: Annotated[float | None, "Its Shapley value."]
    without_ms: Annotated[float | None, "Gain of removing it alone."]
    attributed_ms: Annotated[float | None, "Time lost to it by the fast attribution."]
    disagrees: Annotated[bool, "Whether the two differ by more than 5 % of the duration."]


class WhatIfRemovalBlame(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Blame by removal."""

    target: Annotated[str, "Name of the query."]
    duration_ms: Annotated[
        float | None, "Replayed duration with everybody there; of several runs their sum."
    ]
    alone_ms: Annotated[float | None, "The same without the sources."]
    sources: Annotated[
        list[WhatIfSource], "Largest first; `shapley_ms` sums to `duration_ms` − `alone_ms`."
    ]
    exact: Annotated[bool, "Whether all sets of sources were replayed; else orders are sampled."]
    doubts: Annotated[list[str], "What is doubtful."]


class WhatIfDevice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A device, before and after."""

    host: Annotated[str, "Name of the host."]
    resource: Resource
    tasks_before: Annotated[float | None, "Tasks that used it, as it was."]
    tasks_after: Annotated[float | None, "Tasks that used it, after the change."]
    throughput_per_s_before: Annotated[float | None, "X: tasks per second, as it was."]
    throughput_per_s_after: Annotated[float | None, "X: tasks per second, after the change."]
    demand_ms_before: Annotated[float | None, "D: time of the whole device per task, as it was."]
    demand_ms_after: Annotated[
        float | None, "D: time of the whole device per task, after the change."
    ]
    utilisation_before: Annotated[float | None, "U = X · D, as it was."]
    utilisation_after: Annotated[float | None, "U = X · D, after the change."]
    alone_ms_before: Annotated[float | None, "Time per task that it needs alone, as it was."]
    alone_ms_after: Annotated[float | None, "Time per task that it needs alone, after the change."]
    wait_ms_before: Annotated[float | None, "Waits for others per task, as it was."]
    wait_ms_after: Annotated[float | None, "Waits for others per task, after the change."]
    time_ms_before: Annotated[float | None, "R: time per task, as it was."]
    time_ms_after: Annotated[float | None, "R: time per task, after the change."]


class WhatIfAnswer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `iqcar whatif --json` writes: the answer to a question, a plan, blame by removal, as
    asked for. Durations are milliseconds. Null is unknown, never zero.
    """

    iqcar_version: Annotated[str, "The version of iqcar that wrote it."]
    schema_version: Annotated[
        Literal["1"], "Changes when a reader of this file would have to change."
    ]
    do: Annotated[
        WhatIfDo | UnsetType,
        "What was changed: one key per kind of change, as in "
        "`iqcar.replay.whatif.question.Question`.",
    ] = UNSET
    self_check: Annotated[
        WhatIfSelfCheck | UnsetType,
        "How well a replay reproduces the run as it was, before single tasks were fitted: errors "
        "as shares.",
    ] = UNSET
    capacities: Annotated[
        list[WhatIfCapacity] | UnsetType,
        "What devices can do, and how much of the time the busiest host's was in use.",
    ] = UNSET
    queries: Annotated[list[WhatIfQuery] | UnsetType, "Queries that ended and are not removed."] = (
        UNSET
    )
    total: Annotated[WhatIfTotal | UnsetType, "Sum over the queries that are predicted."] = UNSET
    assumptions: Annotated[list[str] | UnsetType, "What the answer rests on."] = UNSET
    refused: Annotated[list[str] | UnsetType, "What is not answered, and why."] = UNSET
    plan: Annotated[
        WhatIfPlan | UnsetType,
        "What other numbers of executors or slots would have taken; there with `--plan`.",
    ] = UNSET
    removal_blame: Annotated[
        WhatIfRemovalBlame | UnsetType,
        "Who made a query wait, by replays without the others; there with `--blame`.",
    ] = UNSET
    devices: Annotated[
        list[WhatIfDevice] | UnsetType,
        "Operational laws of the devices in use most, at most 120 of them.",
    ] = UNSET


def whatif_schema() -> str:
    """Return the JSON Schema of what ``iqcar whatif`` writes, as text."""
    return schema_text(
        WhatIfAnswer,
        title="iqcar whatif",
        identity="https://iqcar.org/whatif.schema.json",
        dependent={
            "do": [
                "self_check",
                "capacities",
                "queries",
                "total",
                "assumptions",
                "refused",
                "devices",
            ]
        },
    )


def whatif_to_json(
    answer: WhatIf | None, plan: Plan | None = None, blame: RemovalBlame | None = None
) -> bytes:
    """Encode what was asked for; numbers nobody knows become null."""
    fields = {
        "iqcar_version": __version__,
        "schema_version": SCHEMA_VERSION,
        **({} if answer is None else answer.to_dict()),
        **({} if plan is None else {"plan": plan.to_dict()}),
        **({} if blame is None else {"removal_blame": blame.to_dict()}),
    }
    return json_bytes(fields, indent=1) + b"\n"
