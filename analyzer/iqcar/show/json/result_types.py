"""Declares the result of ``iqcar analyze --json``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from iqcar.show.json.stragglers import ResultQueryStragglers, ResultStragglers, ResultWastedWork
from iqcar.show.json.topics import ResultTopics
from iqcar.show.json.yarn import ResultYarn

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
            "failed",
            "contention",
            "executors",
            "start-up",
            "not-granted",
            "cold",
            "locality",
            "partitions",
            "tiny-tasks",
            "skew",
            "memory",
            "broadcast",
            "gc",
            "throttled",
            "lock",
            "page-faults",
            "wasted",
            "slow-host",
            "driver",
            "schema",
            "collect",
            "outside",
            "idle",
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
    frees: Annotated[
        float, Meta(ge=0, le=1), "Of idle executors, the share of their time that the action frees."
    ]
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
    failed: Annotated[bool, "Whether it failed, or a job of it, unless Spark says otherwise."]
    error: Annotated[str, "Why, in a line: Spark's own error; empty if it did not fail."]
    status: Annotated[
        Literal["succeeded", "failed", "cancelled", "running"],
        "What became of it: `QueryStatus` in kinds.md.",
    ]
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
