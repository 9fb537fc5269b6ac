"""Declares what ``iqcar compare --json`` writes."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

ContributionMs = Annotated[
    float, Meta(description="Change per run, all runs of the query in it together.")
]
IntervalMs = Annotated[
    list[float | None],
    Meta(
        description="Interval of the contribution, of 1 − alpha; null where it could not be "
        "tested.",
        min_length=2,
        max_length=2,
    ),
]
Runs = Annotated[
    list[Annotated[int, Meta(ge=0)]],
    Meta(description="Runs with it, before and after.", min_length=2, max_length=2),
]


class CompareSide(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The runs of one side."""

    logs: Annotated[list[str], Meta(description="Paths of its logs.")]
    runs: Annotated[int, Meta(description="Runs: the units of statistics.", ge=0)]
    applications: Annotated[list[str], Meta(description="Ids of its applications.")]
    versions: Annotated[list[str], Meta(description="Spark versions.")]
    hosts: Annotated[list[str], Meta(description="Hosts that ran its tasks.")]
    host_cores: Annotated[
        float | None,
        Meta(
            description="Cores of an application's executors on a host, median; null where unknown."
        ),
    ]


class CompareTotal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Durations of all compared queries."""

    before: Annotated[float, Meta(description="Before.")]
    after: Annotated[float, Meta(description="After.")]


class CompareSetting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A setting that differs."""

    key: Annotated[str, Meta(description="The property.")]
    before: Annotated[list[str], Meta(description="Its values before; empty if not set.")]
    after: Annotated[list[str], Meta(description="Its values after; empty if not set.")]


class CompareHost(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Hosts of either side."""

    before: Annotated[list[str], Meta(description="Hosts only before.")]
    after: Annotated[list[str], Meta(description="Hosts only after.")]


class CompareSparkVersion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Spark versions of either side."""

    before: Annotated[list[str], Meta(description="Before.")]
    after: Annotated[list[str], Meta(description="After.")]


class CompareDifferent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What else differs between the sides."""

    conf: Annotated[list[CompareSetting], Meta(description="Spark properties that differ.")]
    hosts: Annotated[CompareHost, Meta(description="Hosts that only one side has.")]
    spark_version: Annotated[
        CompareSparkVersion | None, Meta(description="Spark versions where they differ; else null.")
    ]


class CompareQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A recurring query of both sides."""

    name_before: Annotated[str | None, Meta(description="Name before; null if it did not run.")]
    name_after: Annotated[str | None, Meta(description="Name after; null if it did not run.")]
    fingerprint: Annotated[
        str | None, Meta(description="Fingerprint after, else before; null if it has none.")
    ]
    matched_by: Annotated[
        Literal["fingerprint", "name", "plan", "pair"] | None,
        Meta(description="How it was matched; null if it ran on one side only."),
    ]


class CompareExample(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A stage of one run, to look at."""

    application_id: Annotated[str, Meta(description="Its application.")]
    stage_id: Annotated[int, Meta(description="Spark's stage id.")]


class CompareStage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A stage of a recurring query."""

    label: Annotated[
        str,
        Meta(
            description="Its RDD scopes and plan nodes; `driver` for the time in which no stage "
            "held the query up."
        ),
    ]
    number: Annotated[
        int, Meta(description="Its number among the query's stages of one label, from 1.", ge=1)
    ]
    operators: Annotated[list[str], Meta(description="Plan operators.")]
    before: Annotated[
        CompareExample | None,
        Meta(description="A stage before; null if there is none, or only a baseline."),
    ]
    after: Annotated[
        CompareExample | None, Meta(description="A stage after; null if there is none.")
    ]


class ComparePart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Changes of the parts of task time, in ms; one per request of a running task among them."""

    slots: Annotated[float, Meta(description="Change of this part.")]
    executors: Annotated[float, Meta(description="Change of this part.")]
    compute: Annotated[float, Meta(description="Change of this part.")]
    gc: Annotated[float, Meta(description="Change of this part.")]
    run_queue: Annotated[float, Meta(description="Change of this part.")]
    monitor_blocked: Annotated[float, Meta(description="Change of this part.")]
    notification_wait: Annotated[float, Meta(description="Change of this part.")]
    throttled: Annotated[float, Meta(description="Change of this part.")]
    execution_memory: Annotated[float, Meta(description="Change of this part.")]
    storage_memory: Annotated[float, Meta(description="Change of this part.")]
    page_fault: Annotated[float, Meta(description="Change of this part.")]
    shuffle_fetch: Annotated[float, Meta(description="Change of this part.")]
    io_read: Annotated[float, Meta(description="Change of this part.")]
    io_write: Annotated[float, Meta(description="Change of this part.")]
    tail: Annotated[float, Meta(description="Change of this part.")]
    rest: Annotated[float, Meta(description="Change of this part.")]


class CompareCause(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why a change happened."""

    cause: Annotated[
        str, Meta(description="kind:name, such as `metric:compute_ms`, `conf:KEY` or `query:NAME`.")
    ]
    share_of_change: Annotated[
        float | None, Meta(description="Its part of the change; null if it cannot be told.")
    ]
    sentence: Annotated[str, Meta(description="What happened, in words.")]


class CompareChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A change, ranked by its part in the whole."""

    rank: Annotated[
        int, Meta(description="Rank of the query by contribution; a stage has its query's.", ge=1)
    ]
    query: Annotated[CompareQuery, Meta(description="The query.")]
    stage: Annotated[
        CompareStage | None, Meta(description="The stage; null for the query as a whole.")
    ]
    kind: Annotated[
        Literal[
            "rate",
            "data",
            "skew",
            "structure",
            "memory",
            "host",
            "environment",
            "contention",
            "added",
            "removed",
        ],
        Meta(description="What kind of change it is."),
    ]
    before_ms: Annotated[
        float,
        Meta(
            description="Mean over runs before; of a stage, its time on the chain that held the "
            "query up."
        ),
    ]
    after_ms: Annotated[float, Meta(description="The same after.")]
    contribution_ms: ContributionMs
    interval_ms: IntervalMs
    share: Annotated[
        float, Meta(description="Its size among those of all queries' changes, either way.", ge=0)
    ]
    runs: Runs
    runs_ms: Annotated[
        list[list[float]],
        Meta(description="Its time in each run, before and after.", min_length=2, max_length=2),
    ]
    q_value: Annotated[
        float | None, Meta(description="Least q-value of its tests; null if untested.")
    ]
    evidence: Annotated[
        list[Literal["time", "cpu", "bytes", "skew"]],
        Meta(description="Measures whose test says changed."),
    ]
    parts_ms: Annotated[ComparePart, Meta(description="Parts of the contribution; they sum to it.")]
    causes: Annotated[list[CompareCause], Meta(description="Why, the largest first.")]
    parent: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(description="Place of its query's change in this list; null for a query."),
    ]


class CompareEffect(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a query adds to the change."""

    query: Annotated[CompareQuery, Meta(description="The query.")]
    before_ms: Annotated[float, Meta(description="Mean over runs before.")]
    after_ms: Annotated[float, Meta(description="Mean over runs after.")]
    contribution_ms: ContributionMs
    interval_ms: IntervalMs
    runs: Runs


class CompareUnclear(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A query of which the runs cannot tell whether it changed."""

    query: Annotated[CompareQuery, Meta(description="The query.")]
    before_ms: Annotated[float, Meta(description="Mean over runs before.")]
    after_ms: Annotated[float, Meta(description="Mean over runs after.")]
    contribution_ms: ContributionMs
    interval_ms: IntervalMs
    runs: Runs
    runs_needed: Annotated[
        int,
        Meta(description="Runs a side that would tell in four of five cases; 0 if unknown.", ge=0),
    ]


class CompareGate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the gate decided."""

    passed: Annotated[bool, Meta(description="Whether no query is slower than allowed.")]
    failures: Annotated[list[str], Meta(description="A line for each query that failed.")]


class CompareExplanation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters that go with a change."""

    query: Annotated[CompareQuery, Meta(description="The query.")]
    stage: Annotated[
        CompareStage | None, Meta(description="The stage; null for the query as a whole.")
    ]
    parameter: Annotated[
        str | None, Meta(description="What best tells the sides apart; null if nothing does.")
    ]
    value: Annotated[
        float | str | None, Meta(description="A number: it is above. A text: it is this.")
    ]
    gain: Annotated[
        float | None, Meta(description="Bits about the side that the answer gives, at most 1.")
    ]
    equally_good: Annotated[list[str], Meta(description="Other parameters that tell as much.")]
    sentence: Annotated[
        str | None, Meta(description="The answer that most runs after gave, and how many did.")
    ]


class ComparePrinted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A finding of the method as printed."""

    query: Annotated[CompareQuery, Meta(description="The query.")]
    kind: Annotated[Literal["response-time", "structural"], Meta(description="Kind of mutation.")]
    graph: Annotated[list[str], Meta(description="Its stage graph: depth and label of each stage.")]
    before_ms: Annotated[
        float, Meta(description="Mean before, of its precursors where structural.")
    ]
    after_ms: Annotated[float, Meta(description="Mean after.")]
    runs: Annotated[
        list[Annotated[int, Meta(ge=0)]],
        Meta(
            description="Runs of the query with this graph, before and after.",
            min_length=2,
            max_length=2,
        ),
    ]
    contribution_ms: Annotated[
        float, Meta(description="Expected contribution to the time of all runs.")
    ]
    p: Annotated[float | None, Meta(description="Of the test, not adjusted; null if structural.")]
    stages: Annotated[
        list[str],
        Meta(description="Stages on the critical path with other latencies; [] if structural."),
    ]
    precursors: Annotated[
        list[list[str]],
        Meta(description="Stage graphs that its runs may have had before, the most similar first."),
    ]


class ComparisonResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `iqcar compare --json` writes.

    Durations are milliseconds. Null is unknown, never zero.
    """

    schema_version: Annotated[
        Literal["1"], Meta(description="Changes when a reader of this file would have to change.")
    ]
    iqcar_version: Annotated[str, Meta(description="The version of iqcar that wrote it.")]
    before: Annotated[CompareSide, Meta(description="The runs before.")]
    after: Annotated[CompareSide, Meta(description="The runs after.")]
    margin: Annotated[float, Meta(description="Relative change of time that is none.", gt=0)]
    alpha: Annotated[float, Meta(description="Level of the tests.", gt=0)]
    total_ms: Annotated[
        CompareTotal,
        Meta(description="Time of the queries of both sides in a run, each run as often on both."),
    ]
    headline: Annotated[
        str, Meta(description="How many queries changed, and which most, by how much and why.")
    ]
    different: Annotated[
        CompareDifferent, Meta(description="What differs besides the queries; listed, not blamed.")
    ]
    changes: Annotated[
        list[CompareChange],
        Meta(description="What changed: queries by contribution, each followed by its stages."),
    ]
    same: Annotated[
        list[CompareEffect],
        Meta(description="Queries that did not change by more than the margin."),
    ]
    cannot_tell: Annotated[
        list[CompareUnclear], Meta(description="Queries of which too few runs tell.")
    ]
    gate: Annotated[
        CompareGate | None, Meta(description="The gate; null if no --fail-on was given.")
    ]
    doubts: Annotated[list[str], Meta(description="What makes the result doubtful.")]
    explanation: Annotated[
        CompareExplanation | None,
        Meta(
            description="What tells the runs of one change apart; null if --explain was not given."
        ),
    ]
    printed: Annotated[
        list[ComparePrinted] | None,
        Meta(
            description="What Spectroscope as printed finds; null if --method printed was not "
            "given."
        ),
    ]
