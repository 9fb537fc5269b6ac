"""Declares the tables of demand: own rates of stages, and capacities of devices."""

from __future__ import annotations

from iqcar.tables import Column, TableSpec

PRIOR, INFERRED = range(2)
"""Evidence of an own rate: what is likely before the data, or the stage's own tasks."""

OWN_RATES = TableSpec(
    "own_rates",
    "One row per stage and request: the speed of its tasks when nobody else uses the device.",
    (
        Column("stage", "int32", "row", "The stage."),
        Column("request", "int8", "code", "Position of the request in `REQUESTS`."),
        Column("tasks", "int64", "count", "Tasks that it is estimated from."),
        Column("own_rate", "float64", "units per ms", "Median of the probable own rates."),
        Column("low", "float64", "units per ms", "Lower bound of the middle 80 % of them."),
        Column("high", "float64", "units per ms", "Upper bound of the middle 80 %."),
        Column("identified", "bool", "", "Whether the data tell the rate."),
        Column("evidence", "int8", "code", "0: the prior, 1: inferred from the stage's tasks."),
    ),
)
"""Units are bytes; for the processor ms of CPU time, so that rates are cores."""

CAPACITIES = TableSpec(
    "capacities",
    "One row per host and request: what its device can do.",
    (
        Column("host", "int32", "row", "The machine."),
        Column("request", "int8", "code", "Position of the request in `REQUESTS`."),
        Column("capacity", "float64", "units per ms", "Capacity, else the highest speed seen."),
        Column("identified", "bool", "", "Whether it is a capacity; else it can be any higher."),
        Column("contended", "float64", "", "Probability that a task waited for another there."),
        Column("relative_speed", "float64", "", "Speed of the host relative to the others."),
        Column("noise", "float64", "", "Standard deviation of log speeds within a stage."),
        Column("tasks", "int64", "count", "Tasks that it is estimated from."),
    ),
)
