"""Declares the tables of a store: each column once, with dtype, unit and a sentence.

A store keeps no row numbers: a row names its application, query and host. ``batch`` is the addition
that wrote the row; of several additions of one application the last one counts.
"""

from __future__ import annotations

from iqcar.enums import Resource
from iqcar.tables.declarations import Column, TableSpec, declare

FORMAT = 1
"""Version of the store's layout. Columns can be added to a table under the same number: files
without them hold nulls there."""

_KEY: tuple[tuple[str, str, str, str], ...] = (
    ("batch", "str", "", "The addition that wrote the row; a later one sorts after it."),
    ("application_id", "str", "", "The application."),
    ("attempt_id", "str", "", "Its attempt; empty if it has only one."),
)


def _waits() -> tuple[Column, ...]:
    return tuple(
        column
        for name in (resource.value for resource in Resource)
        for column in declare(
            (f"{name}_wait_ms", "float64", "ms", f"Its tasks' waits for {name}; NaN if unknown."),
            (f"{name}_evidence", "str", "", "The weakest evidence among them."),
        )
    )


APPLICATIONS = TableSpec(
    "applications",
    "One row per addition of an application attempt; written last, it makes the others count.",
    declare(
        *_KEY,
        ("name", "str", "", "Application name."),
        ("user", "str", "", "User that ran it."),
        ("spark_version", "str", "", "Spark version; empty if not recorded."),
        ("master", "str", "", "spark.master; empty if not recorded."),
        ("path", "str", "", "Where its log was read."),
        ("log_bytes", "int64", "bytes", "Stored size of the log when it was read."),
        ("status", "str", "", "complete, in_progress or truncated."),
        ("message", "str", "", "What was lost or doubtful; empty if nothing."),
        ("start_ms", "float64", "ms", "When the application started."),
        ("end_ms", "float64", "ms", "When it ended; the last event's time if it did not end."),
        ("queries", "int64", "count", "Its queries."),
        ("tasks", "int64", "count", "Its task attempts that ended."),
        ("beside", "int64", "count", "Other applications that were diagnosed with it."),
        ("iqcar_version", "str", "", "Version that diagnosed it."),
    ),
)

QUERIES = TableSpec(
    "queries",
    "One row per query.",
    (
        *declare(
            *_KEY,
            ("query_id", "str", "", "Unique in its application attempt."),
            ("name", "str", "", "Description, job group, call site, or what its plan does."),
            ("kind", "str", "", "sql, connect, job-group, job or app."),
            ("fingerprint", "str", "", "Equal for every run of the same recurring query."),
            ("family", "str", "", "Its name without dates, ids and run numbers; may be empty."),
            ("pool", "str", "", "Scheduler pool of its first job; empty if not recorded."),
            ("user", "str", "", "User of its Connect or Thrift session, else of the application."),
            ("session", "str", "", "Its Connect or Thrift session; (no session) if none."),
            ("start_ms", "float64", "ms", "Start of the execution or of its first job."),
            ("duration_ms", "float64", "ms", "Its duration; NaN if unknown."),
            ("ended", "bool", "", "Whether the log holds its end."),
            ("failed", "bool", "", "Whether it, or a job of it, failed."),
            ("stages", "int64", "count", "Stage attempts."),
            ("tasks", "int64", "count", "Task attempts that ended."),
            ("task_ms", "float64", "ms", "Σ of their durations."),
            ("cpu_ms", "float64", "ms", "Σ of their CPU times; NaN if not recorded."),
            ("read_bytes", "float64", "bytes", "Input and shuffle bytes its tasks read."),
            ("lost_ms", "float64", "ms", "Elapsed time lost to waits."),
            ("lost_to_others_ms", "float64", "ms", "The part lost to other queries."),
            ("wasted_ms", "float64", "ms", "How much later it ended because of wasted work."),
        ),
        *_waits(),
    ),
)

STAGES = TableSpec(
    "stages",
    "One row per query and label of stages; those below 1 % of its duration are summed.",
    declare(
        *_KEY,
        ("query_id", "str", "", "The query."),
        ("stage", "str", "", "What they do, else their call site; empty for what was summed."),
        ("attempts", "int64", "count", "Stage attempts of this label."),
        ("tasks", "int64", "count", "Their task attempts that ended."),
        ("elapsed_ms", "float64", "ms", "Part of the query's duration in which they held it up."),
        ("task_ms", "float64", "ms", "Σ of their tasks' durations."),
        ("cpu_ms", "float64", "ms", "Σ of their CPU times; NaN if not recorded."),
        ("read_bytes", "float64", "bytes", "Input and shuffle bytes their tasks read."),
    ),
)

BLAME = TableSpec(
    "blame",
    "One row per query that lost time, who was in its way, resource and host.",
    declare(
        *_KEY,
        ("query_id", "str", "", "The query that lost time."),
        ("kind", "str", "", "query, own, known, unattributed or rest (`BlameKind` in kinds.md)."),
        ("source_application_id", "str", "", "Application of the blamed query; else empty."),
        ("source_attempt_id", "str", "", "Its attempt."),
        ("source_query_id", "str", "", "The blamed query; empty for the other kinds."),
        ("resource", "str", "", "What was waited for."),
        ("host", "str", "", "Where; empty if not recorded, or summed over the smallest."),
        ("lost_ms", "float64", "ms", "Elapsed time lost."),
        ("idle_ms", "float64", "ms", "The part in which the source's executors had no tasks."),
    ),
)

CAUSES = TableSpec(
    "causes",
    "One row per query, host and cause of stragglers there.",
    declare(
        *_KEY,
        ("query_id", "str", "", "The query."),
        ("host", "str", "", "Where the stragglers ran; empty if not recorded."),
        ("cause", "str", "", "Why they were slow; empty where nothing explains it."),
        ("stragglers", "int64", "count", "Stragglers; one with two causes counts in both."),
        ("delay_ms", "float64", "ms", "Σ of what they took longer than their stage's median."),
    ),
)

HOSTS = TableSpec(
    "hosts",
    "One row per host that ran tasks of the application.",
    declare(
        *_KEY,
        ("host", "str", "", "Host name or address."),
        ("tasks", "int64", "count", "Task attempts that ended there."),
        ("task_ms", "float64", "ms", "Σ of their durations."),
        ("compared_ms", "float64", "ms", "Σ of those in stages that ran on other hosts, too."),
        ("expected_ms", "float64", "ms", "What these take by the medians of their stages."),
        ("stragglers", "int64", "count", "Stragglers there."),
        ("delay_ms", "float64", "ms", "Σ of what they took longer than their stage's median."),
    ),
)

PROPERTIES = TableSpec(
    "properties",
    "One row per Spark property of the application, or of a query's jobs or session.",
    declare(
        *_KEY,
        ("query_id", "str", "", "The query that it was set for; empty: for the application."),
        ("name", "str", "", "Name of the property."),
        ("value", "str", "", "Value; (redacted) in place of a secret."),
    ),
)

DEMANDS = TableSpec(
    "demands",
    "One row per own rate of a recurring query's stage, or capacity of a host, that tasks told.",
    declare(
        *_KEY,
        ("version", "int64", "", "Version of what the row means."),
        ("fingerprint", "str", "", "The recurring query; empty in rows of a host."),
        ("stage", "str", "", "What the stage does, else its call site."),
        ("position", "int64", "count", "Which of the query's stages of this label, from 0."),
        ("host", "str", "", "The host; empty in rows of a stage."),
        ("request", "str", "", "What is asked of the device."),
        ("log_value", "float64", "", "Logarithm of bytes per ms, or of cores."),
        ("variance", "float64", "", "Variance of that logarithm."),
        ("runs", "int64", "count", "Runs of the query that it comes from."),
    ),
)

STORED = (APPLICATIONS, QUERIES, STAGES, BLAME, CAUSES, HOSTS, PROPERTIES, DEMANDS)
"""Every table of a store; the first commits an addition."""
