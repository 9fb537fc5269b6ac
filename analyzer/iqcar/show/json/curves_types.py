"""Declares the file of curves that ``iqcar experiment`` writes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

Of = Annotated[
    Literal["query", "stage"],
    Meta(
        description="Whose times: a query as elapsed, or the mean time of a stage's task in the "
        "device."
    ),
]
Label = Annotated[str, Meta(description="The stage's label; empty for a query.")]


class CurveCurve(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How one measured query slows down as one resource is taken."""

    of: Of
    query: Annotated[str, Meta(description="Name in the plan.")]
    label: Label
    resource: Literal["cpu", "disk", "network", "memory"]
    alone_ms: Annotated[float, Meta(description="Median without hogs.")]
    tasks_at_once: Annotated[
        float,
        Meta(
            description="Tasks of it that ran together on the host with the hogs; of a query its "
            "slots."
        ),
    ]
    share: Annotated[float, Meta(description="r/C of these tasks together.", ge=0, le=1)]
    low: Annotated[float, Meta(description="80 % interval of the share.", ge=0, le=1)]
    high: Annotated[float, Meta(ge=0, le=1)]
    identified: Annotated[
        bool,
        Meta(
            description="Whether hogs slowed it for certain; if not, the share is at most `high`."
        ),
    ]
    own_rate_share: Annotated[
        float,
        Meta(
            description="share / tasks_at_once: own rate of one task as a share of the capacity.",
            ge=0,
            le=1,
        ),
    ]
    residual: Annotated[float, Meta(description="Root mean square of log(measured / fitted).")]
    pairs: Annotated[int, Meta(description="Pairs of runs that it was fitted to.")]
    own_rate_per_s: Annotated[
        float | UnsetType | None,
        Meta(
            description="Bytes that a task of the stage moves in a second in the disk or network "
            "without hogs; its own rate if `high` is below 1. Null where unknown, and "
            "of a query."
        ),
    ] = UNSET


class CurveValidation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A run beside another query, measured and predicted."""

    of: Of
    query: Annotated[str, Meta(description="Name in the plan.")]
    label: Label
    resource: Literal["cpu", "disk", "network", "memory"]
    level: float
    k: Annotated[float, Meta(description="Hogs for each task.")]
    pairs: int
    measured: Annotated[float, Meta(description="Slowdown, geometric mean over the pairs.")]
    predicted: Annotated[
        float, Meta(description="Slowdown by the fit to the pairs of all other levels.")
    ]
    low: float
    high: float
    error: Annotated[float, Meta(description="predicted / measured - 1")]


class CurveRun(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One run of the plan."""

    number: Annotated[
        int, Meta(description="Also in the description of the query in the event log.")
    ]
    pair: Annotated[
        int,
        Meta(description="Alike for a run with hogs and the one beside it without; 0: warm-up."),
    ]
    query: str
    resource: str
    level: float
    k: Annotated[float, Meta(description="Hogs for each slot of the query; 0: none.")]
    start_ms: Annotated[float, Meta(description="Epoch ms.")]
    duration_ms: Annotated[float | None, Meta(description="null if it failed.")]
    failed: Annotated[str, Meta(description="Why; else empty.")]
    cores: Annotated[
        float | None, Meta(description="Processors that the hogs used on average, where told.")
    ]


class CurvesFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `iqcar experiment` writes, and `--curves` of `iqcar analyze` and `iqcar whatif` reads.

    Durations are milliseconds.
    """

    schema_version: Literal["1"]
    iqcar_version: str
    law: Annotated[str, Meta(description="The law that was fitted.")]
    ended_by: Annotated[
        str, Meta(description="A signal's name, budget, or empty: every pair was run.")
    ]
    plan: Annotated[dict[str, Any], Meta(description="As it was given.")]
    curves: list[CurveCurve]
    validation: list[CurveValidation]
    runs: list[CurveRun]
    hosts: Annotated[
        list[str], Meta(description="Names of the hosts under hogs, where tasks count.")
    ] = []
