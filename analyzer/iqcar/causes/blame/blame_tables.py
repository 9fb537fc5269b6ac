"""Declares the tables of blame: demands, their sources, and the sums of folded sources."""

from __future__ import annotations

from iqcar.enums import BlameKind, Resource
from iqcar.tables import Column, TableSpec

BLAME_KINDS: tuple[BlameKind, ...] = tuple(BlameKind)
"""All kinds of blame; the code in numpy columns is the position here."""
QUERY, OWN, KNOWN, UNATTRIBUTED, REST = range(len(BLAME_KINDS))

DEMANDS = TableSpec(
    "demands",
    "One row per target stage, request and host whose tasks waited there.",
    (
        Column("stage", "int32", "row", "The target stage."),
        Column("query", "int32", "row", "Its query."),
        Column("request", "int8", "code", "Position of the request in `REQUESTS`."),
        Column("host", "int32", "row", "The machine; −1 if unknown."),
        Column("tasks", "int64", "count", "Tasks that waited."),
        Column("wait_ms", "float64", "ms", "Task time waited."),
        Column("evidence", "int8", "code", "Worst evidence among these tasks."),
        Column("ratp", "float64", "ms per unit", "Cumulative RATP, Σ WT / DP (eq. 8)."),
        Column("slowdown", "float64", "", "Mean S of these tasks (eq. 3), weighted by task time."),
        Column(
            "lost_ms",
            "float64",
            "ms",
            "Task time lost, Σ `Loss.lost` of its tasks; in a device with the waits for slots that "
            "the query's own tasks held longer because of it.",
        ),
        Column("over_attribution", "float64", "", "Σ β / S where sources exceeded S; else 1."),
    ),
)

SOURCES = TableSpec(
    "sources",
    "One row per blame explanation: a demand and one source stage or cause of its loss.",
    (
        Column("demand", "int32", "row", "The demand."),
        Column("kind", "int8", "code", "Position of the kind in `BlameKind`."),
        Column("source_stage", "int32", "row", "The source stage; −1 where no single one is."),
        Column("beta", "float64", "", "Blame Σ β over its tasks (eq. 9), after conservation."),
        Column("lost_ms", "float64", "ms", "Its part of the demand's lost task time."),
        Column("idle_ms", "float64", "ms", "Part of that in which its executors were idle."),
    ),
)

FOLDED = TableSpec(
    "folded",
    "One row per query, or none where nothing was folded: its sums in REST rows.",
    (
        Column("sources", "int64", "count", "Source queries in its REST rows, as a target."),
        Column("victims", "int64", "count", "Targets whose REST rows include it, as a source."),
        Column("worst_victim", "int32", "row", "That of these which lost most to it; else −1."),
        Column("worst_lost_ms", "float64", "ms", "Time that this target lost to it."),
        Column("dor", "float64", "", "Sum of its degrees of responsibility in those rows."),
        Column("lost_ms", "float64", "ms", "Elapsed time that those targets lost to it."),
        Column("recurring_ms", "float64", "ms", "The part lost by runs of the same fingerprint."),
        *(Column(f"{r}_lost_ms", "float64", "ms", f"The part lost to {r}.") for r in Resource),
    ),
)
"""REST rows keep the sums per target; this table keeps the sums per source."""
