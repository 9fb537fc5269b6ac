"""Finds hosts whose tasks take longer than those of the others, in several stages."""

from __future__ import annotations

import numpy as np
import pandas as pd

from iqcar.tables import Tables
from iqcar.tables.arrays import positive_or_zero

SLOWER = 1.5
"""Median task of a host over that of the next slowest host from which on it is slow: what makes a
straggler."""
LEAST_TASKS, LEAST_STAGES = 2, 2
"""Tasks of a stage on the host, and stages in which it is slow: once is chance."""
LEAST_SHARE = 0.5
"""Part of the stages with as many tasks there in which the host is slow."""
LEAST_TASK_MS = 500.0
"""Tasks shorter than that differ by what starting them costs."""
MORE_BYTES = 1.25
"""Bytes of its tasks over those of the others from which on it has more to do, and is not slow."""


def slow_hosts(tables: Tables) -> pd.DataFrame:
    """Name the slow host of each stage that has one.

    Returns frame by stage: ``host`` (row), and ``host_ms``: task time that its tasks took longer
    than as many of the other hosts.
    """
    tasks = tables.tasks
    lasted = (tasks["finish_ms"] - tasks["launch_ms"]).to_numpy(np.float64)
    columns = ("input_bytes", "remote_bytes", "local_bytes")
    moved = sum(positive_or_zero(tasks[name].to_numpy(np.float64)) for name in columns)
    frame = pd.DataFrame({"lasted": lasted, "bytes": moved})
    frame["stage"], frame["host"] = tasks["stage"].to_numpy(), tasks["host"].to_numpy()
    done = (tasks["status"] == "success").to_numpy(bool) & np.isfinite(lasted)
    frame = frame[done & (frame["stage"] >= 0).to_numpy() & (frame["host"] >= 0).to_numpy()]
    of = frame.groupby(["stage", "host"], sort=False)
    each = of[["lasted", "bytes"]].median().assign(tasks=of.size()).reset_index()
    each = each.sort_values(["stage", "lasted"], ascending=[True, False], kind="stable")
    each = each[each.duplicated("stage", keep=False)]
    of_stage = each.groupby("stage", sort=False)
    slowest = of_stage.nth(0).set_index("stage")
    second = of_stage.nth(1).set_index("stage")
    more_to_do = slowest["bytes"] > MORE_BYTES * second["bytes"].clip(lower=1.0)
    enough = (slowest["tasks"] >= LEAST_TASKS) & (slowest["lasted"] >= LEAST_TASK_MS)
    slow = slowest[enough & (slowest["lasted"] >= SLOWER * second["lasted"]) & ~more_to_do]
    usual = of_stage["lasted"].median().reindex(slow.index)
    slow = slow.assign(host_ms=slow["tasks"] * (slow["lasted"] - usual))
    could = each[(each["tasks"] >= LEAST_TASKS) & (each["lasted"] >= LEAST_TASK_MS)]
    stages = could["host"].value_counts().reindex(slow["host"]).to_numpy(np.float64)
    times = slow.groupby("host")["tasks"].transform("size").to_numpy(np.float64)
    return slow.loc[(times >= LEAST_STAGES) & (times >= LEAST_SHARE * stages), ["host", "host_ms"]]
