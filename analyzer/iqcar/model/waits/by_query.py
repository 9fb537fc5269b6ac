"""Sums the waits of each query's tasks by resource, with the weakest evidence of each sum."""

from __future__ import annotations

import numpy as np
import pandas as pd

from iqcar.enums import EVIDENCES, Request, Resource
from iqcar.model.waits.columns import MISSING, evidence_column, requests_of, wait_column
from iqcar.tables import Column, Tables, TableSpec
from iqcar.tables.arrays import Floats

QUERY_WAITS = TableSpec(
    "query_waits",
    "One row per query and resource: the sum of its tasks' waits.",
    (
        Column("query", "int32", "row", "The query."),
        Column("resource", "str", "", "slots, executors, cpu, memory, network or io."),
        Column("wait_ms", "float64", "ms", "Sum over its tasks; NaN if known for none."),
        Column("evidence", "str", "", "The weakest evidence among the tasks whose wait is known."),
        Column("missing_share", "float64", "", "Share of its task time whose wait is unknown."),
    ),
)

TELLING = {
    Resource.SLOTS: (Request.SLOT_WAIT,),
    Resource.EXECUTORS: (Request.EXECUTOR_WAIT,),
    Resource.CPU: (Request.RUN_QUEUE,),
    Resource.MEMORY: (Request.EXECUTION_MEMORY, Request.STORAGE_MEMORY),
    Resource.NETWORK: (Request.SHUFFLE_FETCH,),
    Resource.IO: (Request.IO_READ, Request.IO_WRITE),
}
"""Requests that must be known for a resource's wait to count as known. Lock waits are not among
them: where they were not measured, the estimated run-queue wait contains them."""


def sum_query_waits(tables: Tables, waits: pd.DataFrame) -> pd.DataFrame:
    """Sum each query's task waits by resource.

    Frame of `QUERY_WAITS`, every query × every resource, queries in order.

    tables: their queries must be identified.
    waits: frame of WAITS; one row per row of ``tables.tasks``.
    """
    n = len(tables.queries)
    query = tables.tasks["query"].to_numpy()
    has = query >= 0
    query = query[has]
    duration = waits["duration_ms"].to_numpy()[has]
    life = np.bincount(query, weights=duration, minlength=n)
    columns: dict[str, list[Floats]] = {"wait_ms": [], "missing_share": []}
    evidences: list[list[str]] = []
    for resource in Resource:
        total = np.zeros(n)
        weakest = np.full(n, len(EVIDENCES), np.uint8)
        unknown = np.zeros(len(query), bool)
        for request in requests_of(resource):
            wait = waits[wait_column(request)].to_numpy()[has]
            evidence = waits[evidence_column(request)].to_numpy()[has]
            known = evidence != MISSING
            total += np.bincount(query[known], weights=wait[known], minlength=n)
            np.minimum.at(weakest, query[known], evidence[known])
            if request in TELLING[resource]:
                unknown |= ~known
        missing = np.bincount(query, weights=duration * unknown, minlength=n)
        none_known = weakest == len(EVIDENCES)
        columns["wait_ms"].append(np.where(none_known, np.nan, total))
        # A query without task time has no unknown time, unless no task's wait is known.
        share = np.where(life > 0, missing / np.where(life > 0, life, 1.0), 0.0)
        columns["missing_share"].append(np.where(none_known, 1.0, share))
        evidences.append([str(EVIDENCES[w % len(EVIDENCES)]) for w in weakest])
    resources = [str(r) for r in Resource]
    return QUERY_WAITS.frame(
        {
            "query": np.repeat(np.arange(n), len(resources)),
            "resource": resources * n,
            "wait_ms": np.column_stack(columns["wait_ms"]).ravel(),
            "evidence": [e for row in zip(*evidences, strict=True) for e in row],
            "missing_share": np.column_stack(columns["missing_share"]).ravel(),
        }
    )
