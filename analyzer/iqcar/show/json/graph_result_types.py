"""Declares the results on the graph and on demand."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

KnownFrom = Annotated[
    Literal["prior", "inferred", "history", "experiment"],
    "prior: what is likely before the data, or the highest speed seen; inferred: from the tasks "
    "of this run; history: from earlier runs, in a store; experiment: from runs under hogs, in a "
    "file of curves.",
]
Tasks = Annotated[int, Meta(ge=0), "Tasks that it is estimated from."]


class ResultNode(msgspec.Struct, frozen=True):
    """A vertex of iQC-Graph."""

    id: Annotated[str, "Unique in the graph; starts with the level's letters."]
    level: Annotated[int, Meta(ge=0, le=6), "0 target query … 6 source query."]
    kind: Annotated[str, "The level's kind below level 4; who is blamed from there on."]
    label: Annotated[str, "What a reader would call it."]
    contribution: Annotated[float, Meta(ge=0), "Vertex contribution (VC) in the impact model."]
    dor: Annotated[
        float,
        Meta(ge=0),
        "Degree of responsibility; at levels 5 and 6 summed over the exported targets, with "
        "dor_by_target beside it.",
    ]


class ResultEdge(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"from_": "from", "to_": "to"}
):
    """An edge of the iQC-Graph."""

    from_: Annotated[str, "Vertex at the higher level."]
    to_: Annotated[str, "Vertex at the level below it."]
    impact_factor: Annotated[
        float, Meta(ge=0, le=1.000001), "IF: the vertex's share of its neighbour's impact (eq. 13)."
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
    request: Annotated[str, "What was waited for."]
    capacity: Annotated[
        float,
        Meta(ge=0),
        "What the device can do; the highest speed seen where it is not identified.",
    ]
    unit: Literal["bytes/s", "cores"]
    identified: Annotated[bool, "Whether it is known; else it can be any higher."]
    contended: Annotated[
        float, Meta(ge=0, le=1), "Probability that a task waited for another there."
    ]
    relative_speed: Annotated[
        float, Meta(ge=0), "Speed of the host relative to the others, for every task."
    ]
    evidence: KnownFrom
    tasks: Tasks


class ResultOwnRate(msgspec.Struct, frozen=True):
    """What the tasks of a stage ask of a device when they run alone."""

    query_id: str
    stage_id: int
    request: Annotated[str, "What was waited for."]
    own_rate: Annotated[float, Meta(ge=0), "Speed of its tasks when nobody else uses the device."]
    low: Annotated[float, Meta(ge=0), "Lower bound of the middle 80 % of the probable rates."]
    high: Annotated[float, Meta(ge=0), "Upper bound of the middle 80 %."]
    unit: Literal["bytes/s", "cores"]
    identified: Annotated[bool, "Whether the data tell the rate."]
    evidence: KnownFrom
    tasks: Tasks


class ResultDemand(msgspec.Struct, frozen=True):
    """The model of demand."""

    capacities: Annotated[list[ResultCapacity], "One per host and request."]
    own_rates: Annotated[list[ResultOwnRate], "One per stage of the targets and request."]


class ResultAggressiveQuery(msgspec.Struct, frozen=True):
    """A query that others lost time to."""

    query_id: str
    name: str
    dor: Annotated[float, Meta(ge=0)]
    lost_ms: Annotated[float, Meta(ge=0), "Elapsed time that other queries lost to it."]


class ResultOwnerLoss(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one owner lost to another owner, or to a cause."""

    victim: Annotated[
        str,
        "Whom the queries that lost the time belong to; (no …) where that is not known, (several "
        "…) where a query's jobs belong to several, (redacted) in place of a secret.",
    ]
    source: Annotated[
        str,
        "Whom the queries that were in the way belong to; for what is no query that is named, the"
        " cause in brackets.",
    ]
    kind: Annotated[
        str,
        "To what it was lost; `BlameKind` in kinds.md. `own`: to the same query; `query`: to "
        "another, which may belong to the same owner.",
    ]
    resource: Annotated[str, "What was waited for."]
    lost_ms: Annotated[float, "Elapsed time lost."]
    share: Annotated[float, "Its part of what all queries lost."]
    evidence: Annotated[str, "The weakest evidence among the waits; `Evidence` in kinds.md."]


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
            "contention",
            "executors",
            "start-up",
            "partitions",
            "skew",
            "memory",
            "broadcast",
            "gc",
            "cpu-limit",
            "page-faults",
            "wasted",
            "slow-host",
            "driver",
            "unknown",
        ],
        "What it is about; `FindingKind` in kinds.md.",
    ]
    subject: Annotated[str, "The recurring query, or the host."]
    query_ids: Annotated[list[str], "Queries that it is about, the one that saves most first."]
    saves_ms: Annotated[
        float,
        Meta(ge=0),
        "Elapsed time that the action alone saves its runs: by a replay of the run, where that "
        "reproduces it, else estimated.",
    ]
    low_ms: Annotated[float, Meta(ge=0), "Lower end of the range."]
    high_ms: Annotated[float, Meta(ge=0), "Upper end."]
    share: Annotated[float, Meta(ge=0, le=1.000001), "`saves_ms` as a share of its runs."]
    evidence: Annotated[
        Literal["estimated", "replayed"], "Whether a replay of the run says what is saved."
    ]
    where: Annotated[str, "Stage, host or resource; empty if everywhere."]
    sentence: Annotated[str, "What was found."]
    action: Annotated[str, "What to do."]
    settings: Annotated[list[ResultSetting], "Settings that help."]
    section: Annotated[str, "Part of the report that shows the numbers."]


class ResultCached(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Cached data that a query held in storage memory."""

    name: Annotated[str, "Of the RDD, else the plan node; empty if unknown."]
    bytes: Annotated[float, Meta(ge=0), "Most at one time, in all executors."]


class ResultActingRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A rule of the plugin that acted in the recorded run."""

    application_id: Annotated[str, "Its application."]
    rule: Annotated[str, "Ids of the rules that it came from; empty if the file names none."]
    kind: Annotated[
        Literal["pool", "placement"], "A pool's settings, or the pool of a recurring query."
    ]
    name: Annotated[str, "The pool, or what the query is recognised by."]
    value: Annotated[str, "How the pool was, or the pool that the query went into."]
    from_ms: Annotated[float, "When it began to act, in ms since 1970."]
    until_ms: Annotated[
        float | None, "When it was changed or taken back; null if it acted to the end."
    ]


class ResultRulesNotAccepted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of rules that the plugin did not accept."""

    application_id: Annotated[str, "Its application."]
    time_ms: Annotated[float, "When the file was looked at, in ms since 1970."]
    sentence: Annotated[str, "What was wrong with it."]


class ResultActingRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rules of the plugin in the recorded run."""

    acted: Annotated[
        list[ResultActingRule],
        "Settings of pools and placements of queries, by application, then by start.",
    ]
    not_accepted: Annotated[
        list[ResultRulesNotAccepted],
        "Looks at the rules file that changed nothing, by application and time.",
    ]
