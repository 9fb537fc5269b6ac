"""The kinds of blame, and the tables it comes in."""

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
        Column("lost_ms", "float64", "ms", "Task time lost, Σ WT · S / (1 + S)."),
        Column("over_attribution", "float64", "", "Σ β / S where sources exceeded S; else 1."),
    ),
)

SOURCES = TableSpec(
    "sources",
    "One row per blame explanation: a demand and who, or what, was in its way.",
    (
        Column("demand", "int32", "row", "The demand."),
        Column("kind", "int8", "code", "Position of the kind in `BlameKind`."),
        Column("source_stage", "int32", "row", "The source stage; −1 where no single one is."),
        Column("beta", "float64", "", "Blame Σ β over its tasks (eq. 9), after conservation."),
        Column("lost_ms", "float64", "ms", "Its part of the demand's lost task time."),
    ),
)

FOLDED = TableSpec(
    "folded",
    "One row per query, or none where nothing was folded: what its name is missing from.",
    (
        Column("sources", "int64", "count", "Source queries in its rest, as a target."),
        Column("victims", "int64", "count", "Targets in whose rest it is, as a source."),
        Column("worst_victim", "int32", "row", "The one of these that lost most to it; else −1."),
        Column("worst_lost_ms", "float64", "ms", "What that one lost to it."),
        Column("dor", "float64", "", "Its degree of responsibility in those rests, summed."),
        Column("lost_ms", "float64", "ms", "What those targets lost to it, elapsed."),
        Column("recurring_ms", "float64", "ms", "The part lost by runs of the same fingerprint."),
        *(Column(f"{r}_lost_ms", "float64", "ms", f"The part lost to {r}.") for r in Resource),
    ),
)
"""Rest rows keep the sums of targets; this table keeps the sums of sources."""
