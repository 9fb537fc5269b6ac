"""Declares the tables of a comparison: measures of each category and run, categories, changes."""

from __future__ import annotations

from iqcar.model.waits.stage_parts import PARTS
from iqcar.tables import TableSpec
from iqcar.tables.declarations import declare

CATEGORIES = TableSpec(
    "categories",
    "One row per query on either side, per stage of one, and per driver of one.",
    declare(
        ("kind", "str", "", "query, stage, or driver: the time in which no stage held it up."),
        ("query_category", "int32", "row", "Its query; a query's own row."),
        ("name_before", "str", "", "The query's name before; empty if it did not run."),
        ("name_after", "str", "", "Its name after; empty if it did not run."),
        ("fingerprint", "str", "", "The query's fingerprint after, else before."),
        ("matched_by", "str", "", "fingerprint, name, plan, pair or label; empty if unmatched."),
        ("label", "str", "", "The stage's label; empty for a query."),
        ("ordinal", "int32", "", "Its number among the query's stages of one label."),
        ("operators", "str", "", "Plan operators, joined by `; `."),
        ("parent", "int32", "row", "The query that a stage belongs to; −1 for a query."),
    ),
)

MEASURES = (
    ("time_ms", "float64", "ms", "Duration; of a stage, its time on the chain to the query's end."),
    ("cpu_ms", "float64", "ms", "CPU time of its tasks."),
    ("python_cpu_ms", "float64", "ms", "CPU time of their Python workers, where it was measured."),
    ("bytes", "float64", "bytes", "Input and shuffle data that its tasks read."),
    ("records", "float64", "count", "Input and shuffle records that its tasks read."),
    ("tasks", "float64", "count", "Task attempts."),
    ("partitions", "float64", "count", "Tasks that Spark planned."),
    *((name, "float64", "ms", f"Part of `time_ms`: {sentence}") for name, sentence in PARTS),
    ("spill_bytes", "float64", "bytes", "Spilled to disk."),
    ("hosts", "float64", "count", "Hosts that ran its tasks."),
)
"""Measures that are means over the runs of a query inside one run; a stage that a run of the query
did not need counts 0 there."""

CATEGORY_RUNS = TableSpec(
    "category_runs",
    "One row per category and run in which its query ran; measures are per run of the query.",
    declare(
        ("category", "int32", "row", "The category."),
        ("side", "int8", "", "0 before, 1 after."),
        ("run", "int32", "", "The run, numbered on each side."),
        ("instances", "int64", "count", "How often the query ran in it."),
        *MEASURES,
        ("bytes_max_over_mean", "float64", "", "Most data of a task over the mean; NaN if none."),
    ),
)

EFFECTS = TableSpec(
    "effects",
    "One row per category: its means on both sides, what tests say, and parts of its change.",
    declare(
        ("category", "int32", "row", "The category."),
        ("runs_before", "int64", "count", "Runs before in which its query ran."),
        ("runs_after", "int64", "count", "Runs after in which its query ran."),
        ("instances", "float64", "count", "How often its query ran in a run, mean of the sides."),
        ("before_ms", "float64", "ms", "Mean over runs before; 0 if it did not run."),
        ("after_ms", "float64", "ms", "Mean over runs after; 0 if it did not run."),
        ("contribution_ms", "float64", "ms", "`instances` times after less before."),
        ("low_ms", "float64", "ms", "Lower end of the contribution's interval; NaN if untested."),
        ("high_ms", "float64", "ms", "Upper end; NaN if untested."),
        ("log_low", "float64", "", "Lower end of the interval of ln(after / before)."),
        ("log_high", "float64", "", "Upper end."),
        ("verdict", "str", "", "changed, same or cannot_tell; empty if a side has no time of it."),
        ("evidence", "str", "", "time, cpu, bytes: the tests that say changed, joined by `, `."),
        ("q_value", "float64", "", "Least q of those, else that of time; NaN if untested."),
        ("runs_needed", "int64", "count", "Runs a side that would tell; 0 if told or untested."),
        ("data_ms", "float64", "ms", "Part of the contribution: other data at the mean rate."),
        ("rate_ms", "float64", "ms", "Part of the contribution: other rate on the mean data."),
        *(
            (f"{name.removesuffix('_ms')}_change_ms", "float64", "ms", f"Part of it: {sentence}")
            for name, sentence in PARTS
        ),
    ),
)

CHANGES = TableSpec(
    "changes",
    "One row per change of a query, followed by those of its stages.",
    declare(
        ("rank", "int32", "", "Rank of the query by contribution; a stage has its query's."),
        ("category", "int32", "row", "What changed."),
        ("kind", "str", "", "What kind of change it is (`ChangeKind`)."),
        ("before_ms", "float64", "ms", "Mean over runs before; 0 if it did not run."),
        ("after_ms", "float64", "ms", "Mean over runs after; 0 if it did not run."),
        ("contribution_ms", "float64", "ms", "Change per run of the whole, all its runs together."),
        ("low_ms", "float64", "ms", "Lower end of the contribution's interval; NaN if untested."),
        ("high_ms", "float64", "ms", "Upper end; NaN if untested."),
        ("share", "float64", "", "Of all queries' changes, either way, as sizes."),
        ("runs_before", "int32", "count", "Runs before with it."),
        ("runs_after", "int32", "count", "Runs after with it."),
        ("q_value", "float64", "", "Least q of its tests; NaN if untested."),
        ("evidence", "str", "", "time, cpu, bytes: the tests passed, joined by `, `."),
        ("parent", "int32", "row", "Row of its query's change; −1 for a query."),
    ),
)

CHANGE_CAUSES = TableSpec(
    "change_causes",
    "One row per cause of a change, the largest first.",
    declare(
        ("change", "int32", "row", "The change."),
        ("cause", "str", "", "kind:name, such as metric:cpu_ms, conf:KEY or query:NAME."),
        ("share_of_change", "float64", "", "Its part of the change; NaN if it cannot be told."),
        ("sentence", "str", "", "What happened, in words."),
    ),
)

NODES = TableSpec(
    "nodes",
    "One row per recurring query of a side, per driver of one, and per stage of one.",
    declare(
        ("kind", "str", "", "query, driver or stage."),
        ("query", "int32", "row", "Its query's node."),
        ("name", "str", "", "Of the query's first run; of a stage, its call site."),
        ("fingerprint", "str", "", "Of the query."),
        ("family", "str", "", "The query's name without dates and counters."),
        ("scans", "str", "", "Tables that the query's plan scans, joined by `; `."),
        ("operators", "str", "", "Plan operators, joined by `; `."),
        ("label", "str", "", "The stage's label."),
        ("ordinal", "int32", "", "Its number among the query's stages of one label."),
        ("order", "float64", "", "Mean place among the query's stages."),
    ),
)

NODE_RUNS = TableSpec(
    "node_runs",
    "One row per node and run: means over the runs of the query inside it.",
    declare(
        ("node", "int32", "row", "The node."),
        ("run", "int32", "", "The run."),
        ("instances", "int64", "count", "How often its query ran in the run."),
        *MEASURES,
        ("bytes_max_over_mean", "float64", "", "Most data of a task over the mean; NaN if none."),
    ),
)

QUERY_GRAPHS = TableSpec(
    "query_graphs",
    "One row per run of a query: the graph of its stages.",
    declare(
        ("node", "int32", "row", "The query's node."),
        ("run", "int32", "", "The run."),
        ("graph", "str", "", "Labels of the stages, readers before what they read, by newlines."),
    ),
)

QUERY_SETTINGS = TableSpec(
    "query_settings",
    "One row per query, setting that a session of it changed, and value in its runs.",
    declare(
        ("node", "int32", "row", "The query's node."),
        ("key", "str", "", "Name of the setting."),
        ("value", "str", "", "A value in some of its runs; of others, their application's."),
    ),
)

COMPARISON_TABLES = (CATEGORIES, CATEGORY_RUNS, EFFECTS, CHANGES, CHANGE_CAUSES)
"""The tables of a comparison, in the order of the documentation."""
