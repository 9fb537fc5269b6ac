"""Applies iQCAR as printed (:mod:`iqcar.papers.iqcar`) to tables that were read.

Paper: iQCAR | §4 to §6.2 on event logs | exact; data that Spark does not count is left out |
  tests/papers/test_printed_blame.py
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from math import inf, isfinite
from typing import Any

import numpy as np
import pandas as pd

from iqcar.enums import LEVELS
from iqcar.model.waits.columns import launch_wait
from iqcar.papers.iqcar import (
    DATA,
    UNKNOWN,
    PaperTask,
    Vertex,
    build_paper_graph,
    responsibilities,
    top_vertices,
)
from iqcar.tables import NONE, Tables, TableSpec
from iqcar.tables.arrays import Floats, positive_or_zero, sum_known
from iqcar.tables.declarations import declare

PRINTED_BLAME = TableSpec(
    "printed_blame",
    "One row per vertex of iQC-Graph as printed, of those with the highest DOR.",
    declare(
        ("target", "int32", "row", "The target query."),
        ("level", "int32", "", "1 to 6."),
        ("stage", "int32", "row", "The target stage; −1 at levels 5 and 6."),
        ("resource", "str", "", "At level 2; else empty."),
        ("request", "str", "", "At levels 3 and 4; else empty."),
        ("host", "int32", "row", "At levels 3 and 4; else −1."),
        ("source_stage", "int32", "row", "At levels 4 and 5; −1 if unknown."),
        ("source_query", "int32", "row", "From level 4 on; −1 if unknown."),
        ("contribution", "float64", "", "VC."),
        ("dor", "float64", "", "DOR towards the target."),
    ),
)
_PLACES = {
    1: ("stage",),
    2: ("stage", "resource"),
    3: ("stage", "request", "host"),
    4: ("stage", "request", "host", "source_stage"),
    5: ("source_stage",),
    6: ("source_query",),
}
"""What a vertex of each level names, after its level."""


def printed_blame(
    tables: Tables,
    waits: pd.DataFrame,
    targets: Sequence[int],
    top: int,
    *,
    critical_path: bool = False,
) -> pd.DataFrame:
    """Return the ``top`` vertices of every level towards each target: ``PRINTED_BLAME``.

    critical_path: whether only stages on the targets' critical paths are looked at.
    """
    stages = np.flatnonzero(tables.stages["critical"]).tolist() if critical_path else None
    graph = build_paper_graph(paper_tasks(tables, waits), targets, stages)
    dor, query_of = responsibilities(graph), tables.stages["query"].tolist()
    rows = [
        _row(vertex, query_of)
        | {"target": target, "contribution": graph.contribution[vertex], "dor": part}
        for target in targets
        for level in range(1, len(LEVELS))
        for vertex, part in top_vertices(dor, top, level, target)
        if part > 0
    ]
    columns = PRINTED_BLAME.column_names()
    return PRINTED_BLAME.frame({name: [row[name] for row in rows] for name in columns})


def printed_shares(tables: Tables, waits: pd.DataFrame, targets: Sequence[int]) -> Floats:
    """Return DOR of each query (column) towards each query (row); 0 for those not asked for."""
    shares = np.zeros((len(tables.queries),) * 2)
    dor = responsibilities(build_paper_graph(paper_tasks(tables, waits), targets))
    for vertex, towards in dor.items():
        if vertex[0] == len(LEVELS) - 1 and vertex[1] != UNKNOWN:
            for target, part in towards.items():
                shares[int(target), int(vertex[1])] = part
    return shares


def _row(vertex: Vertex, query_of: Sequence[int]) -> dict[str, Any]:
    level = int(vertex[0])
    row: dict[str, Any] = dict.fromkeys(("stage", "host", "source_stage", "source_query"), NONE)
    row |= {"level": level, "resource": "", "request": ""}
    for place, name in zip(_PLACES[level], vertex[1:], strict=True):
        row[place] = NONE if name == UNKNOWN else name
    if row["source_stage"] >= 0:
        row["source_query"] = query_of[row["source_stage"]]
    return row


def paper_tasks(tables: Tables, waits: pd.DataFrame) -> list[PaperTask]:
    """Return the tasks of queries that ran, with waits and data as table 4 counts them.

    No log tells offers of slots: those that tasks of the application took while a task waited
    count. Input is what was read, from shuffles too. Asked memory is the peak of execution memory;
    nothing records how much storage was asked for.
    """
    tasks, in_all = tables.tasks, launch_wait(waits)
    wait = {request: waits[f"{request}_ms"].tolist() for request in DATA}
    wait["slot_wait"] = in_all.tolist()
    data = {
        kind: sum_known(*(tasks[name].to_numpy(np.float64) for name in names)).tolist()
        for kind, names in _BYTES.items()
    }
    data["slots_offered"] = _slots_offered(tasks, in_all)
    cpu = positive_or_zero(tasks["cpu_ms"].to_numpy(np.float64)).tolist()
    names = ("query", "stage", "host", "launch_ms", "finish_ms")
    rows = zip(*(tasks[name].tolist() for name in names), cpu, strict=True)
    return [
        PaperTask(
            *row, *({k: v[at] for k, v in of.items() if 0 <= v[at] < inf} for of in (wait, data))
        )
        for at, row in enumerate(rows)
        if min(row[:3]) >= 0 and -inf < row[3] <= row[4] < inf
    ]


_BYTES = {
    "input_bytes": ("input_bytes", "remote_bytes", "local_bytes"),
    "execution_memory_asked": ("peak_memory_bytes",),
    "remote_bytes_read": ("remote_bytes",),
    "io_bytes_read": ("input_bytes",),
    "io_bytes_written": ("shuffle_write_bytes", "output_bytes", "disk_spilled_bytes"),
}
"""Columns of tasks that make each kind of data."""


def _slots_offered(tasks: pd.DataFrame, waited: Floats) -> list[float]:
    """Return how many tasks of its application were launched while each task waited, with it."""
    app, launch = tasks["app"].tolist(), tasks["launch_ms"].tolist()
    launches: dict[int, list[float]] = {one: [] for one in app}
    for one, at in zip(app, launch, strict=True):
        if isfinite(at):
            launches[one].append(at)
    for of_app in launches.values():
        of_app.sort()
    rows = zip(app, launch, waited.tolist(), strict=True)
    return [
        max(bisect_right(launches[one], at) - bisect_right(launches[one], at - wait), 1)
        for one, at, wait in rows
    ]
