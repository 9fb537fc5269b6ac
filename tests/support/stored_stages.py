"""What is kept of a query's stages sums to what is kept of the query."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from iqcar.history.stored_files import QUERIES, STAGES
from iqcar.history.stored_rows import rows_of

if TYPE_CHECKING:
    from iqcar.diagnosis import Diagnosis

KEY = ["application_id", "attempt_id", "query_id"]


def check_stored_stages(diagnosis: Diagnosis) -> None:
    rows = rows_of(diagnosis, {}, "")
    queries = rows[QUERIES.name].set_index(KEY)
    queries = queries[queries["stages"] > 0]
    stages = rows[STAGES.name]
    assert not stages.duplicated([*KEY, "stage"]).any()
    sums = stages.groupby(KEY).sum(numeric_only=True, min_count=1).reindex(queries.index)
    for of_stages, name in (("attempts", "stages"), *((n, n) for n in SAME)):
        known = np.isfinite(queries[name].to_numpy(np.float64))
        found, expected = sums[of_stages][known], queries[name][known]
        assert found.to_numpy() == pytest.approx(expected.to_numpy(), rel=1e-9)
    ended = np.isfinite(queries["duration_ms"])
    assert (sums["elapsed_ms"][ended] <= queries["duration_ms"][ended] + 1e-6).all()


SAME = ("tasks", "task_ms", "cpu_ms", "read_bytes")
"""What tasks of a query without a known stage would make differ; Spark has none."""
