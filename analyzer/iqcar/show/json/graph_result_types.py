"""Declares the results on the graph and on demand."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

KnownFrom = Annotated[
    Literal["prior", "inferred", "history", "experiment"],
    Meta(
        description="prior: what is likely before the data, or the highest speed seen; inferred: "
        "from the tasks of this run; history: from earlier runs, in a store; experiment: from "
        "runs under hogs, in a file of curves."
    ),
]
Tasks = Annotated[int, Meta(description="Tasks that it is estimated from.", ge=0)]


class ResultNode(msgspec.Struct, frozen=True):
    """A vertex of iQC-Graph."""

    id: Annotated[str, Meta(description="Unique in the graph; starts with the level's letters.")]
    level: Annotated[int, Meta(description="0 target query … 6 source query.", ge=0, le=6)]
    kind: Annotated[
        str, Meta(description="The level's kind below level 4; who is blamed from there on.")
    ]
    label: Annotated[str, Meta(description="What a reader would call it.")]
    contribution: Annotated[
        float, Meta(description="Vertex contribution (VC) in the impact model.", ge=0)
    ]
    dor: Annotated[
        float,
        Meta(
            description="Degree of responsibility; at levels 5 and 6 summed over the exported "
            "targets, with dor_by_target beside it.",
            ge=0,
        ),
    ]


class ResultEdge(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"from_": "from", "to_": "to"}
):
    """An edge of the iQC-Graph."""

    from_: Annotated[str, Meta(description="Vertex at the higher level.")]
    to_: Annotated[str, Meta(description="Vertex at the level below it.")]
    impact_factor: Annotated[
        float,
        Meta(
            description="IF: the vertex's share of its neighbour's impact (eq. 13).",
            ge=0,
            le=1.000001,
        ),
    ]


class ResultGraph(msgspec.Struct, frozen=True):
    """The iQC-Graph of the targets."""

    impact: Literal["time-lost", "paper"]
    nodes: list[ResultNode]
    edges: list[ResultEdge]


class ResultHotResource(msgspec.Struct, frozen=True):
    """A resource that time was lost to."""

    resource: str
    impact: Annotated[float, Meta(ge=0)]
    lost_ms: Annotated[float, Meta(ge=0)]
    share: Annotated[float, Meta(ge=0, le=1.000001)]


class ResultSlowNode(msgspec.Struct, frozen=True):
    """A host where time was lost."""

    host: str
    impact: Annotated[float, Meta(ge=0)]
    lost_ms: Annotated[float, Meta(ge=0)]
    share: Annotated[float, Meta(ge=0, le=1.000001)]


class ResultCapacity(msgspec.Struct, frozen=True):
    """What a device of a host can do."""

    host: str
    request: Annotated[str, Meta(description="What was waited for.")]
    capacity: Annotated[
        float,
        Meta(
            description="What the device can do; the highest speed seen where it is not "
            "identified.",
            ge=0,
        ),
    ]
    unit: Literal["bytes/s", "cores"]
    identified: Annotated[bool, Meta(description="Whether it is known; else it can be any higher.")]
    contended: Annotated[
        float, Meta(description="Probability that a task waited for another there.", ge=0, le=1)
    ]
    relative_speed: Annotated[
        float, Meta(description="Speed of the host relative to the others, for every task.", ge=0)
    ]
    evidence: KnownFrom
    tasks: Tasks


class ResultOwnRate(msgspec.Struct, frozen=True):
    """What the tasks of a stage ask of a device when they run alone."""

    query_id: str
    stage_id: int
    request: Annotated[str, Meta(description="What was waited for.")]
    own_rate: Annotated[
        float, Meta(description="Speed of its tasks when nobody else uses the device.", ge=0)
    ]
    low: Annotated[
        float, Meta(description="Lower bound of the middle 80 % of the probable rates.", ge=0)
    ]
    high: Annotated[float, Meta(description="Upper bound of the middle 80 %.", ge=0)]
    unit: Literal["bytes/s", "cores"]
    identified: Annotated[bool, Meta(description="Whether the data tell the rate.")]
    evidence: KnownFrom
    tasks: Tasks


class ResultDemand(msgspec.Struct, frozen=True):
    """The model of demand."""

    capacities: Annotated[list[ResultCapacity], Meta(description="One per host and request.")]
    own_rates: Annotated[
        list[ResultOwnRate], Meta(description="One per stage of the targets and request.")
    ]


class ResultAggressiveQuery(msgspec.Struct, frozen=True):
    """A query that others lost time to."""

    query_id: str
    name: str
    dor: Annotated[float, Meta(ge=0)]
    lost_ms: Annotated[float, Meta(description="Elapsed time that other queries lost to it.", ge=0)]


class ResultOwnerLoss(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one owner lost to another owner, or to a cause."""

    victim: Annotated[
        str,
        Meta(
            description="Whom the queries that lost the time belong to; (no …) where that is not "
            "known, (several …) where a query's jobs belong to several, (redacted) in "
            "place of a secret."
        ),
    ]
    source: Annotated[
        str,
        Meta(
            description="Whom the queries that were in the way belong to; for what is no query "
            "that is named, the cause in brackets."
        ),
    ]
    kind: Annotated[
        str,
        Meta(
            description="To what it was lost; `BlameKind` in kinds.md. `own`: to the same query; "
            "`query`: to another, which may belong to the same owner."
        ),
    ]
    resource: Annotated[str, Meta(description="What was waited for.")]
    lost_ms: Annotated[float, Meta(description="Elapsed time lost.")]
    share: Annotated[float, Meta(description="Its part of what all queries lost.")]
    evidence: Annotated[
        str, Meta(description="The weakest evidence among the waits; `Evidence` in kinds.md.")
    ]


class ResultPath(msgspec.Struct, frozen=True):
    """A path of the graph from a source to a target."""

    weight: Annotated[float, Meta(ge=0, le=1.000001)]
    target_query_id: str
    source_query_id: str | None
    nodes: list[str]


class ResultSetting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A setting that would help."""

    name: str
    value: str
    why: str


class ResultFinding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What would save time, and how. Savings overlap: their sum says nothing."""

    kind: Annotated[
        Literal[
            "contention", "executors", "start-up", "partitions", "skew", "memory", "broadcast",
            "gc", "cpu-limit", "page-faults", "wasted", "slow-host", "driver", "unknown",
        ],
        Meta(description="What it is about; `FindingKind` in kinds.md."),
    ]  # fmt: skip
    subject: Annotated[str, Meta(description="The recurring query, or the host.")]
    query_ids: Annotated[
        list[str], Meta(description="Queries that it is about, the one that saves most first.")
    ]
    saves_ms: Annotated[
        float,
        Meta(
            description="Elapsed time that the action alone saves its runs: by a replay of "
            "the run, where that reproduces it, else estimated.",
            ge=0,
        ),
    ]
    low_ms: Annotated[float, Meta(description="Lower end of the range.", ge=0)]
    high_ms: Annotated[float, Meta(description="Upper end.", ge=0)]
    share: Annotated[
        float, Meta(description="`saves_ms` as a share of its runs.", ge=0, le=1.000001)
    ]
    evidence: Annotated[
        Literal["estimated", "replayed"],
        Meta(description="Whether a replay of the run says what is saved."),
    ]
    where: Annotated[str, Meta(description="Stage, host or resource; empty if everywhere.")]
    sentence: Annotated[str, Meta(description="What was found.")]
    action: Annotated[str, Meta(description="What to do.")]
    settings: Annotated[list[ResultSetting], Meta(description="Settings that help.")]
    section: Annotated[str, Meta(description="Part of the report that shows the numbers.")]


class ResultCached(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Cached data that a query held in storage memory."""

    name: Annotated[str, Meta(description="Of the RDD, else the plan node; empty if unknown.")]
    bytes: Annotated[float, Meta(description="Most at one time, in all executors.", ge=0)]


class ResultActingRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A rule of the plugin that acted in the recorded run."""

    application_id: Annotated[str, Meta(description="Its application.")]
    rule: Annotated[
        str, Meta(description="Ids of the rules that it came from; empty if the file names none.")
    ]
    kind: Annotated[
        Literal["pool", "placement"],
        Meta(description="A pool's settings, or the pool of a recurring query."),
    ]
    name: Annotated[str, Meta(description="The pool, or what the query is recognised by.")]
    value: Annotated[
        str, Meta(description="How the pool was, or the pool that the query went into.")
    ]
    from_ms: Annotated[float, Meta(description="When it began to act, in ms since 1970.")]
    until_ms: Annotated[
        float | None,
        Meta(description="When it was changed or taken back; null if it acted to the end."),
    ]


class ResultRulesNotAccepted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of rules that the plugin did not accept."""

    application_id: Annotated[str, Meta(description="Its application.")]
    time_ms: Annotated[float, Meta(description="When the file was looked at, in ms since 1970.")]
    sentence: Annotated[str, Meta(description="What was wrong with it.")]


class ResultActingRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rules of the plugin in the recorded run."""

    acted: Annotated[
        list[ResultActingRule],
        Meta(
            description="Settings of pools and placements of queries, by application, then by "
            "start."
        ),
    ]
    not_accepted: Annotated[
        list[ResultRulesNotAccepted],
        Meta(description="Looks at the rules file that changed nothing, by application and time."),
    ]
