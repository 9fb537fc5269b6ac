"""Declares the result of ``iqcar analyze --json``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

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
from iqcar.show.json.stragglers import ResultQueryStragglers, ResultStragglers, ResultWastedWork
from iqcar.show.json.topic_result_types import ResultTopics
from iqcar.show.json.yarn import ResultYarn

Time = Annotated[float, Meta(ge=0)]


class ResultDriverWork(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the driver did in a part of that time."""

    part: Annotated[
        Literal["before_first_job", "between_jobs", "after_last_task"],
        "When, by the query's stages.",
    ]
    work: Annotated[
        Literal[
            "analysis",
            "optimization",
            "planning",
            "scheduling",
            "compiling",
            "listing",
            "broadcast",
            "commit",
            "other",
        ],
        "What it did; other where that is not recorded.",
    ]
    time_ms: Annotated[float, Meta(ge=0), "How long."]
    files: Annotated[Time | None, "Files that it listed or committed; null if not recorded."]
    evidence: Annotated[Literal["measured", "reported", "estimated"], "How that is known."]


class ResultDriver(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Time in which no stage of a SQL query ran or waited for slots; null where not recorded."""

    ms: Annotated[Time | None, "All of it: the sum of the three parts."]
    before_first_job_ms: Annotated[Time | None, "From its start to its first stage."]
    between_jobs_ms: Annotated[Time | None, "Between two of its stages."]
    after_last_task_ms: Annotated[Time | None, "From the end of its last task to its end."]
    planned_before_ms: Annotated[
        Time | None, "Planning before its start, no part of its duration; by the plugin."
    ]
    work: Annotated[list[ResultDriverWork], "What it did; sums to each part that is known."]


Share = Annotated[float, Meta(ge=0, le=1.000001), "Its part, 0 to 1."]


class ResultSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What was asked for."""

    query_by: str
    impact: str
    source_usage: str
    critical_path: bool
    top: Annotated[int, Meta(ge=0)]
    by: Annotated[str, "What victims and sources are grouped by (--by); empty if by nothing."]


class ResultInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An event log that was found."""

    path: Annotated[str, "Where the log is."]
    application_id: Annotated[str, "As Spark wrote it."]
    application_name: Annotated[str, "As the user gave it."]
    spark_version: Annotated[str, "Empty where the log does not say."]
    status: Annotated[
        Literal["complete", "in_progress", "truncated", "failed"],
        "complete, in_progress (the application had not ended), truncated (a part is missing) or "
        "failed (nothing could be read).",
    ]
    message: Annotated[str, "What was lost or doubtful; empty if nothing."]
    events: Annotated[int, Meta(ge=0), "Well-formed events read."]
    skipped_events: Annotated[int, Meta(ge=0), "Events of a kind iqcar does not know."]
    malformed_lines: Annotated[int, Meta(ge=0), "Lines that are no event."]
    tasks: Annotated[int, Meta(ge=0), "Task-end events."]
    stages: Annotated[int, Meta(ge=0), "Distinct stage attempts seen."]
    jobs: Annotated[int, Meta(ge=0), "Distinct job starts."]
    sql_executions: Annotated[int, Meta(ge=0), "Distinct SQL execution ids."]
    hosts: Annotated[int, Meta(ge=0), "Hosts that ran tasks."]
    executors: Annotated[int, Meta(ge=0), "Distinct executors added or running tasks."]


class ResultWait(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a query waited for one resource, in task time."""

    ms: Annotated[
        Annotated[float, Meta(ge=0)] | None,
        "How long its tasks waited in all; null if nobody recorded it.",
    ]
    evidence: Annotated[
        Literal["missing", "estimated", "reported", "measured"],
        "The weakest evidence among tasks whose wait is known.",
    ]
    missing_share: Annotated[
        float, Meta(ge=0, le=1.000001), "Share of the query's task time whose wait is unknown."
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
        str | None, "The blamed query; null for known and unattributed causes and for the rest."
    ]
    source_name: Annotated[
        str, "Its name, or what the cause is called; of the rest, how many queries it stands for."
    ]
    kind: Annotated[
        Literal["query", "own", "known", "unattributed", "rest"],
        "Another query, the query itself, a known cause, nobody, or the rest: beyond 20, the "
        "smaller of the other queries in one entry (all with --all-sources).",
    ]
    share: Annotated[
        float,
        Meta(ge=0, le=1.000001),
        "Share of the target's lost time; the shares of one target sum to 1.",
    ]
    dor: Annotated[
        float, Meta(ge=0), "Degree of responsibility towards the target in the chosen impact model."
    ]
    lost_ms: Annotated[float, Meta(ge=0), "Elapsed time the target lost to it."]
    share_of_duration: Annotated[float, Meta(ge=0), "lost_ms as a share of the target's duration."]
    by_resource: Annotated[dict[str, Annotated[float, Meta(ge=0)]], "lost_ms by resource."]
    by_host: Annotated[dict[str, Annotated[float, Meta(ge=0)]], "lost_ms by host."]
    idle_ms: Annotated[
        float, Meta(ge=0), "The part of lost_ms in which executors that it held ran no task."
    ]
    limited_ms: Annotated[float, Meta(ge=0), "The part stopped by a CPU limit."]


class ResultQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A query: what it ran, waited and lost."""

    query_id: Annotated[str, "Unique in this file."]
    application_id: Annotated[str, "Its application."]
    name: Annotated[str, "What the user calls it, else where in the code it was started."]
    kind: Annotated[
        Literal["sql", "connect", "job-group", "job", "stage", "app"], "What made it one query."
    ]
    fingerprint: Annotated[
        str, "Equal for every run of the same recurring query; rules match on it."
    ]
    pool: Annotated[str, "Scheduler pool of its first job; empty where not recorded."]
    start_ms: Annotated[float | None, "When it started."]
    end_ms: Annotated[float | None, "When it ended, or the last event's time."]
    duration_ms: Annotated[Annotated[float, Meta(ge=0)] | None, "End less start."]
    ended: Annotated[bool, "Whether the log holds its end."]
    failed: Annotated[bool, "Whether it, or a job of it, failed."]
    jobs: Annotated[int, Meta(ge=0), "Its jobs."]
    stages: Annotated[int, Meta(ge=0), "Its stage attempts."]
    tasks: Annotated[int, Meta(ge=0), "Its task attempts that ended."]
    target: Annotated[bool, "Whether it was named by the user, or is among the most slowed."]
    waits: Annotated[ResultWaits, "Task time waited, by resource."]
    lost_ms: Annotated[
        float,
        Meta(ge=0),
        "Elapsed time lost to contention and to known causes such as garbage collection.",
    ]
    lost_to_others_ms: Annotated[
        float, Meta(ge=0), "The part of lost_ms that was lost to other queries."
    ]
    lost_low_ms: Annotated[float | None, "Least of it (80 %), if replays tell."]
    lost_high_ms: Annotated[float | None, "Most of it."]
    driver: Annotated[ResultDriver, "What it waited for in the driver."]
    share_of_duration: Annotated[float, Meta(ge=0), "lost_ms as a share of the duration."]
    slowdown: Annotated[
        Annotated[float, Meta(ge=0)] | None,
        "Duration over the duration less lost_ms, minus 1; null where nothing would be left.",
    ]
    wasted_task_ms: Annotated[float, Meta(ge=0), "Task time of its attempts that were of no use."]
    wasted_elapsed_ms: Annotated[
        float, Meta(ge=0), "How much later it ended for them; estimated. It overlaps with lost_ms."
    ]
    cached: Annotated[list[ResultCached], "Cached data of it, the largest first; if recorded."]
    blame: Annotated[
        list[ResultBlame],
        "Whom its lost time is put down to, the largest part first; the shares sum to 1.",
    ]
    stragglers: Annotated[
        ResultQueryStragglers | None,
        "Its stragglers linked to causes, topics and who is blamed; null for queries that are no "
        "target.",
    ]


class DiagnosisResult(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `iqcar analyze --json` writes.

    Times are milliseconds; *_ms at a point in time are since the epoch. Null is unknown, never
    zero.
    """

    schema_version: Annotated[
        Literal["1"], "Changes when a reader of this file would have to change."
    ]
    iqcar_version: Annotated[str, "The version of iqcar that wrote it."]
    settings: Annotated[ResultSettings, "The options of the analysis."]
    inputs: Annotated[list[ResultInput], "One per event log found, readable or not."]
    findings: Annotated[list[ResultFinding], "What would save time, what saves most first."]
    queries: Annotated[
        list[ResultQuery], "Every query found, in order of application and first job."
    ]
    graph: Annotated[
        ResultGraph,
        "iQC-Graph of the targets: the chosen impact model, how many small sources were folded, "
        "nodes and edges.",
    ]
    hot_resources: Annotated[
        list[ResultHotResource], "What was lost to each resource by all queries."
    ]
    slow_nodes: Annotated[list[ResultSlowNode], "What was lost on each host by all queries."]
    demand: Annotated[
        ResultDemand,
        "What stages and devices could have done: what losses in devices are measured against.",
    ]
    aggressive_queries: Annotated[
        list[ResultAggressiveQuery], "Queries that cost other queries most."
    ]
    lost_by_owner: Annotated[
        list[ResultOwnerLoss],
        "What the owners of queries lost to whom, by --by: the sum over all rows is that of all "
        "queries' lost_ms. Empty without --by.",
    ]
    paths: Annotated[list[ResultPath], "The heaviest impact paths from a source query to a target."]
    wasted_work: Annotated[
        ResultWastedWork,
        "Work of task attempts that failed, were killed or did again what had been done.",
    ]
    yarn: Annotated[
        ResultYarn | None,
        "What a YARN resource manager tells of waits before applications ran; null without --yarn.",
    ]
    stragglers: Annotated[ResultStragglers, "Tasks that were slower than their stage, and why."]
    topics: Annotated[
        ResultTopics | None, "Causes of stragglers that recur; null where none were looked for."
    ]
    rules: Annotated[
        list[dict[str, Any]],
        "Scheduler rules, then advice (rule-type ADVICE); their own schema is rule.schema.json.",
    ]
    rules_together: Annotated[
        dict[str, Any] | None,
        "The predicted effect of all rules together, as `expected` in rule.schema.json; null "
        "where no rule acts through pools or nothing can be replayed.",
    ]
    rejected_rules: Annotated[
        list[dict[str, Any]] | UnsetType,
        "Scheduler rules that are predicted to harm, and so are not in `rules`, nor in the rules "
        "file; each has the fields of a rule in rule.schema.json, and `rejected`, which says why."
        " Empty with --all-rules.",
    ] = UNSET
    earlier_round: Annotated[
        list[str] | UnsetType,
        "With --previous: what became of each rule that the run was recorded with, and why, and "
        "which proposals would have undone one. Else empty.",
    ] = UNSET
    acting_rules: Annotated[
        ResultActingRules | UnsetType,
        "Which rules of the plugin acted in the recorded run, from when to when.",
    ] = UNSET
    do_not_apply: Annotated[
        str | UnsetType,
        "A warning that the rules are predicted to harm together, or that every rule that was "
        "found is; else empty.",
    ] = UNSET
    doubts: Annotated[list[str], "What is doubtful, one sentence each."]
