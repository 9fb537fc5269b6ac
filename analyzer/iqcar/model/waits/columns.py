"""Declares the table :data:`WAITS`, and the codes of evidence in it."""

from __future__ import annotations

import numpy as np
import pandas as pd

from iqcar.enums import EVIDENCES, REQUESTS, Request, Resource
from iqcar.tables import Column, TableSpec
from iqcar.tables.arrays import Floats

MISSING, ESTIMATED, REPORTED, MEASURED = range(len(EVIDENCES))
"""Codes of the evidence levels in numpy columns (positions in :data:`EVIDENCES`)."""

ACCOUNT = (
    ("compute_ms", "CPU time of the task's thread; NaN if Spark did not record it."),
    ("gc_ms", "Garbage collection that stopped the task."),
    ("deserialize_ms", "Deserialising the task, less the CPU time of deserialising."),
    ("result_serialize_ms", "Serialising its result."),
    ("getting_result_ms", "Fetching its result from the executor."),
    (
        "other_wait_ms",
        "Waiting for the driver, or for a Python worker that slept; 0 unless measured.",
    ),
    ("unattributed_ms", "Unexplained time: scheduler delay, and waits that were not recorded."),
)
"""The parts of a task's duration other than waits for a resource, with a sentence each."""

WAITS = TableSpec(
    "waits",
    "One row per task attempt, aligned with `tasks`: waits with evidence, and the account.",
    (
        Column("duration_ms", "float64", "ms", "Launch to finish."),
        *(Column(name, "float64", "ms", sentence) for name, sentence in ACCOUNT),
        *(Column(f"{r}_ms", "float64", "ms", f"{r.sentence} NaN if unknown.") for r in REQUESTS),
        *(
            Column(
                f"{r}_evidence",
                "int8",
                "",
                f"Evidence of `{r}_ms`: 0 missing, 1 estimated, 2 reported, 3 measured.",
            )
            for r in REQUESTS
        ),
    ),
)

LAUNCH_REQUESTS = tuple(r for r in REQUESTS if r.before_launch)
"""Requests of a task that is not running yet; their waits sum to the time before its launch."""
IN_TASK_REQUESTS = tuple(r for r in REQUESTS if not r.before_launch)
"""Requests of a running task."""


def wait_column(request: Request) -> str:
    """Return the name of the column with a request's wait in ms."""
    return f"{request}_ms"


def launch_wait(waits: pd.DataFrame) -> Floats:
    """Return the time from when each task could run to its launch, in ms; NaN if unknown."""
    known = [waits[wait_column(request)].to_numpy(np.float64) for request in LAUNCH_REQUESTS]
    return np.where(np.isnan(known[0]), np.nan, np.nansum(known, axis=0))


def evidence_column(request: Request) -> str:
    """Return the name of the column with the evidence code of a request's wait."""
    return f"{request}_evidence"


def requests_of(resource: Resource) -> tuple[Request, ...]:
    """Return all requests for one resource, in the order of :data:`REQUESTS`."""
    return tuple(r for r in REQUESTS if r.resource is resource)
