"""Tables written by hand in tests: name the columns that matter, the rest gets a plain value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from iqcar.tables import SPECS, Tables, TableSpec

PLAIN: dict[tuple[str, str], object] = {
    ("tasks", "status"): "success",
    ("tasks", "locality"): "ANY",
    ("stages", "submission_ms"): 1000.0,
    ("stages", "first_launch_ms"): 1000.0,
    ("stages", "completion_ms"): 9000.0,
    ("stages", "completed"): True,
    ("jobs", "sql_execution"): -1,
    ("jobs", "submission_ms"): 1000.0,
    ("jobs", "completion_ms"): 9000.0,
    ("jobs", "succeeded"): True,
    ("applications", "application_id"): "app-1",
    ("applications", "name"): "tiny",
    ("applications", "start_ms"): 0.0,
    ("applications", "end_ms"): 10_000.0,
    ("applications", "ended"): True,
    ("applications", "task_cpus"): 1.0,
    ("executors", "cores"): 4.0,
    ("hosts", "host"): "h0",
}
"""What a column holds where a test does not say: else 0, NaN, "" or False by its dtype."""

_BY_DTYPE: dict[str, object] = {"str": "", "bool": False, "category": "", "float64": np.nan}


def tiny_tables(**rows: Sequence[Mapping[str, object]]) -> Tables:
    """Build tables from rows; one application and one host are there unless given."""
    rows = {"applications": [{}], "hosts": [{}], **rows}
    frames = {}
    for spec in SPECS:
        if spec.name in rows:
            frames[spec.name] = _frame(spec, rows[spec.name])
    return Tables.empty().with_(**frames)


def _frame(spec: TableSpec, rows: Sequence[Mapping[str, object]]):
    unknown = {name for row in rows for name in row} - set(spec.column_names())
    if unknown:
        raise ValueError(f"table {spec.name} has no column {sorted(unknown)}")
    columns = {}
    for column in spec.columns:
        plain = PLAIN.get((spec.name, column.name), _BY_DTYPE.get(column.dtype, 0))
        columns[column.name] = [row.get(column.name, plain) for row in rows]
    return spec.frame(columns)
