"""Declares the result of ``iqcar analyze --json``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from iqcar.show.json.driver_result_types import ResultDriver
from iqcar.show.json.graph_result_types import (
    ResultActingRules,
    ResultAggressiveQuery,
    ResultCached,
    ResultDemand,
    ResultFinding,
    ResultGraph,
    ResultHotResource,
    ResultOwnerLoss,
    ResultPath,
    ResultSlowNode,
)
from iqcar.show.json.straggler_result_types import (
    ResultQueryStragglers,
    ResultStragglers,
    ResultWastedWork,
)
from iqcar.show.json.topic_result_types import ResultTopics
from iqcar.show.json.yarn import ResultYarn

Share = Annotated[float, Meta(description="Its part, 0 to 1.", ge=0, le=1.000001)]


class ResultSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What was asked for."""

    query_by: str
    impact: str
    source_usage: str
    critical_path: bool
    top: Annotated[int, Meta(ge=0)]
    by: Annotated[
        str,
        Meta(description="What victims and sources are grouped by (--by); empty if by nothing."),
    ]


class ResultInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An event log that was found."""

    path: Annotated[str, Meta(description="Where the log is.")]
    application_id: Annotated[str, Meta(description="As Spark wrote it.")]
    application_name: Annotated[str, Meta(description="As the user gave it.")]
    spark_version: Annotated[str, Meta(description="Empty where the log does not say.")]
    status: Annotated[
        Literal["complete", "in_progress", "truncated", "failed"],
        Meta(
            description="complete, in_progress (the application had not ended), truncated (a part "
            "is missing) or failed (nothing could be read)."
        ),
    ]
    message: Annotated[str, Meta(description="What was lost or doubtful; empty if nothing.")]
    events: Annotated[int, Meta(description="Well-formed events read.", ge=0)]
    skipped_events: Annotated[int, Meta(description="Events of a kind iqcar does not know.", ge=0)]
    malformed_lines: Annotated[int, Meta(description="Lines that are no event.", ge=0)]
    tasks: Annotated[int, Meta(description="Task-end events.", ge=0)]
    stages: Annotated[int, Meta(description="Distinct stage attempts seen.", ge=0)]
    jobs: Annotated[int, Meta(description="Distinct job starts.", ge=0)]
    sql_executions: Annotated[int, Meta(description="Distinct SQL execution ids.", ge=0)]
    hosts: Annotated[int, Meta(description="Hosts that ran tasks.", ge=0)]
    executors: Annotated[int, Meta(description="Distinct executors added or running tasks.", ge=0)]


class ResultWait(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a query waited for one resource, in task time."""

    ms: Annotated[
        Annotated[float, Meta(ge=0)] | None,
        Meta(description="How long its tasks waited in all; null if nobody recorded it."),
    ]
    evidence: Annotated[
        Literal["missing", "estimated", "reported", "measured"],
        Meta(description="The weakest evidence among tasks whose wait is known."),
    ]
    missing_share: Annotated[
        float,
        Meta(
            description="Share of the query's task time whose wait is unknown.", ge=0, le=1.000001
        ),
    ]


class ResultWaits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a query waited, by resource."""

    slots: ResultWait
    executors: ResultWait
    cpu: ResultWait
    memory: ResultWait
    network: ResultWait
    io: ResultWait


class ResultBlame(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one query lost to one source."""

    source_query_id: Annotated[
        str | None,
        Meta(
            description="The blamed query; null for known and unattributed causes and for the rest."
        ),
    ]
    source_name: Annotated[
        str,
        Meta(
            description="Its name, or what the cause is called; of the rest, how many queries it "
            "stands for."
        ),
    ]
    kind: Annotated[
        Literal["query", "own", "known", "unattributed", "rest"],
        Meta(
            description="Another query, the query itself, a known cause, nobody, or the rest: "
            "beyond 20, the smaller of the other queries in one entry (all with "
            "--all-sources)."
        ),
    ]
    share: Annotated[
        float,
        Meta(
            description="Share of the target's lost time; the shares of one target sum to 1.",
            ge=0,
            le=1.000001,
        ),
    ]
    dor: Annotated[
        float,
        Meta(
            description="Degree of responsibility towards the target in the chosen impact model.",
            ge=0,
        ),
    ]
    lost_ms: Annotated[float, Meta(description="Elapsed time the target lost to it.", ge=0)]
    share_of_duration: Annotated[
        float, Meta(description="lost_ms as a share of the target's duration.", ge=0)
    ]
    by_resource: Annotated[
        dict[str, Annotated[float, Meta(ge=0)]], Meta(description="lost_ms by resource.")
    ]
    by_host: Annotated[
        dict[str, Annotated[float, Meta(ge=0)]], Meta(description="lost_ms by host.")
    ]
    idle_ms: Annotated[
        float,
        Meta(description="The part of lost_ms in which executors that it held ran no task.", ge=0),
    ]
    limited_ms: Annotated[float, Meta(description="The part stopped by a CPU limit.", ge=0)]


class ResultQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A query: what it ran, waited and lost."""

    query_id: Annotated[str, Meta(description="Unique in this file.")]
    application_id: Annotated[str, Meta(description="Its application.")]
    name: Annotated[
        str, Meta(description="What the user calls it, else where in the code it was started.")
    ]
    kind: Annotated[
        Literal["sql", "connect", "job-group", "job", "stage", "app"],
        Meta(description="What made it one query."),
    ]
    fingerprint: Annotated[
        str, Meta(description="Equal for every run of the same recurring query; rules match on it.")
    ]
    pool: Annotated[
        str, Meta(description="Scheduler pool of its first job; empty where not recorded.")
    ]
    start_ms: Annotated[float | None, Meta(description="When it started.")]
    end_ms: Annotated[float | None, Meta(description="When it ended, or the last event's time.")]
    duration_ms: Annotated[Annotated[float, Meta(ge=0)] | None, Meta(description="End less start.")]
    ended: Annotated[bool, Meta(description="Whether the log holds its end.")]
    failed: Annotated[bool, Meta(description="Whether it, or a job of it, failed.")]
    jobs: Annotated[int, Meta(description="Its jobs.", ge=0)]
    stages: Annotated[int, Meta(description="Its stage attempts.", ge=0)]
    tasks: Annotated[int, Meta(description="Its task attempts that ended.", ge=0)]
    target: Annotated[
        bool, Meta(description="Whether it was named by the user, or is among the most slowed.")
    ]
    waits: Annotated[ResultWaits, Meta(description="Task time waited, by resource.")]
    lost_ms: Annotated[
        float,
        Meta(
            description="Elapsed time lost to contention and to known causes such as garbage "
            "collection.",
            ge=0,
        ),
    ]
    lost_to_others_ms: Annotated[
        float, Meta(description="The part of lost_ms that was lost to other queries.", ge=0)
    ]
    lost_low_ms: Annotated[float | None, Meta(description="Least of it (80 %), if replays tell.")]
    lost_high_ms: Annotated[float | None, Meta(description="Most of it.")]
    driver: Annotated[ResultDriver, Meta(description="What it waited for in the driver.")]
    share_of_duration: Annotated[
        float, Meta(description="lost_ms as a share of the duration.", ge=0)
    ]
    slowdown: Annotated[
        Annotated[float, Meta(ge=0)] | None,
        Meta(
            description="Duration over the duration less lost_ms, minus 1; null where nothing "
            "would be left."
        ),
    ]
    wasted_task_ms: Annotated[
        float, Meta(description="Task time of its attempts that were of no use.", ge=0)
    ]
    wasted_elapsed_ms: Annotated[
        float,
        Meta(
            description="How much later it ended for them; estimated. It overlaps with lost_ms.",
            ge=0,
        ),
    ]
    cached: Annotated[
        list[ResultCached], Meta(description="Cached data of it, the largest first; if recorded.")
    ]
    blame: Annotated[
        list[ResultBlame],
        Meta(
            description="Whom its lost time is put down to, the largest part first; the shares "
            "sum to 1."
        ),
    ]
    stragglers: Annotated[
        ResultQueryStragglers | None,
        Meta(
            description="Its stragglers linked to causes, topics and who is blamed; null for "
            "queries that are no target."
        ),
    ]


class DiagnosisResult(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `iqcar analyze --json` writes.

    Times are milliseconds; *_ms at a point in time are since the epoch. Null is unknown, never
    zero.
    """

    schema_version: Annotated[
        Literal["1"], Meta(description="Changes when a reader of this file would have to change.")
    ]
    iqcar_version: Annotated[str, Meta(description="The version of iqcar that wrote it.")]
    settings: Annotated[ResultSettings, Meta(description="The options of the analysis.")]
    inputs: Annotated[
        list[ResultInput], Meta(description="One per event log found, readable or not.")
    ]
    findings: Annotated[
        list[ResultFinding], Meta(description="What would save time, what saves most first.")
    ]
    queries: Annotated[
        list[ResultQuery],
        Meta(description="Every query found, in order of application and first job."),
    ]
    graph: Annotated[
        ResultGraph,
        Meta(
            description="iQC-Graph of the targets: the chosen impact model, how many small "
            "sources were folded, nodes and edges."
        ),
    ]
    hot_resources: Annotated[
        list[ResultHotResource], Meta(description="What was lost to each resource by all queries.")
    ]
    slow_nodes: Annotated[
        list[ResultSlowNode], Meta(description="What was lost on each host by all queries.")
    ]
    demand: Annotated[
        ResultDemand,
        Meta(
            description="What stages and devices could have done: what losses in devices are "
            "measured against."
        ),
    ]
    aggressive_queries: Annotated[
        list[ResultAggressiveQuery], Meta(description="Queries that cost other queries most.")
    ]
    lost_by_owner: Annotated[
        list[ResultOwnerLoss],
        Meta(
            description="What the owners of queries lost to whom, by --by: the sum over all rows "
            "is that of all queries' lost_ms. Empty without --by."
        ),
    ]
    paths: Annotated[
        list[ResultPath],
        Meta(description="The heaviest impact paths from a source query to a target."),
    ]
    wasted_work: Annotated[
        ResultWastedWork,
        Meta(
            description="Work of task attempts that failed, were killed or did again what had "
            "been done."
        ),
    ]
    yarn: Annotated[
        ResultYarn | None,
        Meta(
            description="What a YARN resource manager tells of waits before applications ran; null "
            "without --yarn."
        ),
    ]
    stragglers: Annotated[
        ResultStragglers, Meta(description="Tasks that were slower than their stage, and why.")
    ]
    topics: Annotated[
        ResultTopics | None,
        Meta(description="Causes of stragglers that recur; null where none were looked for."),
    ]
    rules: Annotated[
        list[dict[str, Any]],
        Meta(
            description="Scheduler rules, then advice (rule-type ADVICE); their own schema is "
            "rule.schema.json."
        ),
    ]
    rules_together: Annotated[
        dict[str, Any] | None,
        Meta(
            description="The predicted effect of all rules together, as `expected` in "
            "rule.schema.json; null where no rule acts through pools or nothing can be replayed."
        ),
    ]
    rejected_rules: Annotated[
        list[dict[str, Any]] | UnsetType,
        Meta(
            description="Scheduler rules that are predicted to harm, and so are not in `rules`, "
            "nor in the rules file; each has the fields of a rule in rule.schema.json, and "
            "`rejected`, which says why. Empty with --all-rules."
        ),
    ] = UNSET
    earlier_round: Annotated[
        list[str] | UnsetType,
        Meta(
            description="With --previous: what became of each rule that the run was recorded "
            "with, and why, and which proposals would have undone one. Else empty."
        ),
    ] = UNSET
    acting_rules: Annotated[
        ResultActingRules | UnsetType,
        Meta(description="Which rules of the plugin acted in the recorded run, from when to when."),
    ] = UNSET
    do_not_apply: Annotated[
        str | UnsetType,
        Meta(
            description="A warning that the rules are predicted to harm together, or that every "
            "rule that was found is; else empty."
        ),
    ] = UNSET
    doubts: Annotated[list[str], Meta(description="What is doubtful, one sentence each.")]
