"""Tables of which some columns are given: all others say that nothing was recorded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from iqcar.enums import REQUESTS, Request
from iqcar.model.waits.columns import MEASURED, MISSING, WAITS
from iqcar.tables import TableSpec

EPOCH_MS = 1.7e12
"""Times in real logs are this large; sums over them must not lose milliseconds."""

_FILL: dict[str, Any] = {"str": "", "category": "", "bool": False, "float64": np.nan}


def frame(spec: TableSpec, n: int, **columns: Any) -> pd.DataFrame:
    """A table of ``n`` rows: the given columns, and "not recorded" in all others."""
    values = {c.name: [_FILL.get(c.dtype, -1)] * n for c in spec.columns}
    return spec.frame({**values, **columns})


def waits_frame(
    tasks: pd.DataFrame, waits: dict[Request, Any], compute_ms: Any = np.nan, gc_ms: Any = 0.0
) -> pd.DataFrame:
    """Waits of every task; requests that are not given are missing."""
    n = len(tasks)
    columns: dict[str, Any] = {c.name: np.zeros(n) for c in WAITS.columns}
    columns["duration_ms"] = tasks["finish_ms"].to_numpy() - tasks["launch_ms"].to_numpy()
    columns["compute_ms"] = np.broadcast_to(compute_ms, n)
    columns["gc_ms"] = np.broadcast_to(gc_ms, n)
    for request in REQUESTS:
        wait = np.broadcast_to(np.asarray(waits.get(request, np.nan), dtype=float), n)
        columns[f"{request}_ms"] = wait
        columns[f"{request}_evidence"] = np.where(np.isnan(wait), MISSING, MEASURED)
    return WAITS.frame(columns)
