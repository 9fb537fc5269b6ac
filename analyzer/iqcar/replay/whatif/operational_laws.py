"""Operational laws of each host's devices: U = X · D, and R = D + waits.

X is the throughput of tasks through a device, D the time that it works for each, U its utilisation
(Denning and Buzen, The Operational Analysis of Queueing Network Models, 1978). A task in a device
takes R: the time that it needs alone, and what it waits for others there.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from iqcar.replay.loop.task_demands import DISK, NETWORK, PROCESSOR
from iqcar.replay.whatif.outcome import Outcome
from iqcar.replay.whatif.scenario import Scenario
from iqcar.tables.arrays import share_of

DEVICE_NAMES = {DISK: "disk", NETWORK: "network", PROCESSOR: "processors"}
KEY = ("host", "resource")
LAWS = ("tasks", "throughput_per_s", "demand_ms", "utilisation", "alone_ms", "wait_ms", "time_ms")


def operational_laws(scenario: Scenario, outcome: Outcome) -> pd.DataFrame:
    """Compute the operational laws of the devices that tasks used.

    Returns
    -------
    DataFrame
        One row per host and device in use, the busiest first: ``host``, ``resource``, ``tasks``,
        ``throughput_per_s`` (X), ``demand_ms`` (D, of the whole device per task), ``utilisation``
        (U = X · D, 0 to 1), and per task ``alone_ms``, ``wait_ms`` and their sum ``time_ms`` (R).
    """
    use, rows = outcome.devices, []
    for device, name in DEVICE_NAMES.items():
        tasks = use.tasks[:, device]
        throughput = tasks / (use.lasted_ms / 1e3)
        alone = share_of(use.alone_ms[:, device], tasks)
        time = share_of(use.spent_ms[:, device], tasks)
        hosts = np.flatnonzero(tasks)
        rows.append(
            pd.DataFrame(
                {
                    "host": [scenario.hosts[host] for host in hosts],
                    "resource": name,
                    "tasks": tasks[hosts],
                    "throughput_per_s": throughput[hosts],
                    "demand_ms": 1e3 * share_of(use.utilisation[:, device], throughput)[hosts],
                    "utilisation": use.utilisation[hosts, device],
                    "alone_ms": alone[hosts],
                    "wait_ms": np.maximum(time - alone, 0.0)[hosts],
                    "time_ms": np.maximum(time, alone)[hosts],
                }
            )
        )
    laws = pd.concat(rows, ignore_index=True)
    return laws.sort_values("utilisation", ascending=False, kind="stable", ignore_index=True)


def before_and_after(before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    """Set two tables of :func:`operational_laws` side by side, the busiest of either first.

    Returns
    -------
    DataFrame
        ``host``, ``resource``, and each law as ``…_before`` and ``…_after``; NaN where the device
        was not in use.
    """
    both = before.merge(after, how="outer", on=list(KEY), suffixes=("_before", "_after"))
    most = both[["utilisation_before", "utilisation_after"]].max(axis=1)
    order = np.lexsort((both["resource"], both["host"], -most))
    columns = [*KEY, *(f"{law}_{side}" for law in LAWS for side in ("before", "after"))]
    return both.loc[order, columns].reset_index(drop=True)
