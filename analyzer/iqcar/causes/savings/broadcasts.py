"""Estimates what each query saves if the small side of a join is broadcast, not shuffled.

The large side is then neither written, fetched nor sorted, and its rows are joined where they are
made. What that took cannot be told from what else the two stages did, so the range is of what the
rows and bytes of a shuffle take of a processor, as a share of the processor time of both stages.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from iqcar.enums import FindingKind
from iqcar.model.waits.executor_memory import memory_of_executor
from iqcar.tables import Tables
from iqcar.tables.arrays import Floats, positive_or_zero, sum_by

PER_RECORD_MS, PER_BYTE_MS = (0.12e-3, 1.5e-3), (1e-6, 5e-6)
"""Processor time of writing, reading and sorting a row, and a byte of its shuffle: from and to."""
AT_MOST = 0.95
"""Share of both stages that is saved at most: something made the rows."""
SEND_RATE = 1e5
"""Bytes per ms at which the driver collects what is broadcast, and executors fetch it, at least."""
MEMORY_SHARE, LARGEST_BYTES = 1 / 8, 256 * 2.0**20
"""What is broadcast takes at most this share of an executor's memory, and is at most this large."""
TIMES = 3.0
"""How much more the large side's shuffle holds at least; sides alike are better left shuffled."""


def broadcasts(facts: pd.DataFrame, tables: Tables) -> pd.DataFrame:
    """Return the facts of the stages that joined two sides of which one could be broadcast.

    Parameters
    ----------
    facts : by stage, of those that held a query up.

    Returns them with their savings; ``bytes`` is the size of the small side.
    """
    edges = tables.stage_parents
    edges = edges[edges["stage"].isin(edges["stage"][edges["side_bytes"].notna()]).to_numpy(bool)]
    small = edges.sort_values("side_bytes", kind="stable").drop_duplicates("stage")
    large = edges.drop(small.index).set_index("stage")["parent"]
    joins = small.set_index("stage").join(large.rename("large"), how="inner")
    found = facts.drop(columns="bytes").join(
        joins.rename(columns={"parent": "small", "side_bytes": "bytes"}), on="stage", how="inner"
    )
    memory = np.array([memory_of_executor(tables, row) for row in range(len(tables.applications))])
    app = tables.stages["app"].to_numpy(np.int64)[found["stage"].to_numpy(np.int64)]
    most = np.minimum(MEMORY_SHARE * memory[app], LARGEST_BYTES)
    stage = tables.tasks["stage"].to_numpy(np.int64)

    def of_tasks(name: str) -> Floats:
        each = positive_or_zero(tables.tasks[name].to_numpy(np.float64))
        return sum_by(stage[stage >= 0], each[stage >= 0], len(tables.stages))

    ran, cpu = of_tasks("run_ms"), of_tasks("cpu_ms") + of_tasks("gc_ms")
    worked = np.where(cpu > 0, cpu, ran)
    rows, written = of_tasks("shuffle_write_records"), of_tasks("shuffle_write_bytes")
    large_bytes, small_bytes = (
        written[found[name].to_numpy(np.int64)] for name in ("large", "small")
    )
    is_small = (found["bytes"].to_numpy(np.float64) <= most) & (large_bytes >= TIMES * small_bytes)
    found = found[is_small]
    held = np.zeros(len(tables.stages))
    held[facts["stage"].to_numpy(np.int64)] = facts["held_ms"].to_numpy(np.float64)
    join, small_side, large_side = (
        found[name].to_numpy(np.int64) for name in ("stage", "small", "large")
    )
    # Both sides are often written at once: of that time the large one has its part of the work.
    both = np.maximum(ran[large_side] + ran[small_side], 1.0)
    time = held[join] + (held[large_side] + held[small_side]) * ran[large_side] / both
    work = np.maximum(worked[join] + worked[large_side], 1.0)
    low, high = (
        time * np.minimum((rows[large_side] * row + written[large_side] * byte) / work, AT_MOST)
        for row, byte in zip(PER_RECORD_MS, PER_BYTE_MS, strict=True)
    )
    low = np.maximum(low - found["bytes"].to_numpy(np.float64) / SEND_RATE, 0.0)
    return found.assign(
        kind=FindingKind.BROADCAST, low_ms=low, high_ms=high, saves_ms=(low + high) / 2.0
    )
