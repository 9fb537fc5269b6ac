"""Lists reasons to doubt the blame: waits without data, unknown amounts, over-attribution."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from iqcar.base.units import duration, percent, short
from iqcar.causes.blame.ratp import BYTES_REQUESTS, data_processed
from iqcar.causes.blame.task_intervals import BlameColumns
from iqcar.enums import REQUESTS, Request, WaitClass
from iqcar.model.demand.estimate import Demand
from iqcar.model.waits.shared_cluster import clusters_of, executor_offers
from iqcar.tables.arrays import most_at_once

SURELY_NOT, SURELY = 0.15, 0.9
"""Probabilities of contention at which it is taken for absent or present."""
MUCH_OVER = 3.0
"""Over-attribution above which a demand's shares rank its sources but hardly quantify them."""
LEAST_PART = 0.05
"""Share of the wait for one request, or of the time lost to it, from which a doubt about that part
is mentioned: a smaller part rarely changes the order of the sources."""
LEAST_UNTOLD_MS = 100.0
"""Waits for storage memory from which on it matters that nobody is known who held it."""
ONE_MACHINE_NAMES = ("localhost", "127.0.0.1", "::1")
"""Host names that refer to the local machine."""

_NAMES = {
    Request.SLOT_WAIT: "slots",
    Request.EXECUTOR_WAIT: "executors",
    Request.RUN_QUEUE: "the processor",
    Request.MONITOR_BLOCKED: "locks",
    Request.NOTIFICATION_WAIT: "other threads",
    Request.THROTTLED: "the CPU limit",
    Request.EXECUTION_MEMORY: "execution memory",
    Request.STORAGE_MEMORY: "storage memory",
    Request.PAGE_FAULT: "pages of memory",
    Request.SHUFFLE_FETCH: "shuffle blocks",
    Request.IO_READ: "reading",
    Request.IO_WRITE: "writing",
}


def doubts_of(columns: BlameColumns, demand: Demand, demands: pd.DataFrame) -> tuple[str, ...]:
    """List reasons to doubt the blame, one sentence each.

    demands: frame of `DEMANDS`.
    """
    if len(columns.stage) == 0:
        return ()
    return (
        *_waits_without_data(columns),
        *_waits_for_stores(columns),
        *_unknown_amounts(columns, demand),
        *_over_attribution(demands),
        *_unknown_slots(columns),
        *_estimated_executors(columns, demands),
        *_holders_without_tasks(columns),
        *_unknown_cached_blocks(columns),
        *_one_machine(columns),
    )


def _waits_without_data(columns: BlameColumns) -> Iterator[str]:
    for request in BYTES_REQUESTS:
        wait = np.nan_to_num(columns.wait(request))
        blind = wait[~(data_processed(columns, request) > 0)].sum()
        if blind > LEAST_PART * wait.sum():
            yield (
                f"for {percent(blind / wait.sum())} of the wait for {_NAMES[request]} no data "
                "volume is recorded: it counts as waited, but how much of it was lost is unknown"
            )


def _waits_for_stores(columns: BlameColumns) -> Iterator[str]:
    """Say that reads waited for an object store: no query of the log holds one."""
    records = columns.tables.task_records
    waited = records[f"{WaitClass.OBJECT_STORE}_ms"].sum()
    if waited > LEAST_PART * columns.span.sum():
        yield (
            f"for {percent(waited / columns.span.sum())} of their time tasks waited for an object "
            f"store{_requests(records)}: it is not put down to other queries, which do not share "
            "it as they share a disk"
        )


def _requests(records: pd.DataFrame) -> str:
    """How many requests there were, how long one took, and whether some failed."""
    names = ("store_requests", "store_request_ms", "store_retries")
    count, total, retries = (float(records[name].sum()) for name in names)
    if count == 0:
        return ""
    again = f", {retries:,.0f} tried again" if retries else ""
    plural = "s" if count > 1 else ""
    return f" ({count:,.0f} request{plural} of {duration(total / count)} on average{again})"


def _unknown_amounts(columns: BlameColumns, demand: Demand) -> Iterator[str]:
    for request in (*BYTES_REQUESTS, Request.RUN_QUEUE):
        waited = np.nan_to_num(columns.wait(request)).sum()
        if request is Request.RUN_QUEUE and request not in demand.devices:
            continue
        device = demand.devices.get(request)
        if waited < LEAST_PART * columns.span.sum():
            continue
        if device is None:
            yield (
                f"too few tasks show how fast {_NAMES[request]} is without contention: how much of "
                "that wait was lost to others is unknown"
            )
        elif SURELY_NOT < device.contended < SURELY:
            yield (
                f"the load hardly varied while tasks waited for {_NAMES[request]}: who shared it "
                "is known, but how much that slowed anybody is not (little of it is counted)"
            )


def _over_attribution(demands: pd.DataFrame) -> Iterator[str]:
    lost = demands["lost_ms"].to_numpy()
    requests = demands["request"].to_numpy()
    much = demands["over_attribution"].to_numpy() > MUCH_OVER
    for code, request in enumerate(REQUESTS):
        # A target is compared with one core but a host has many: over-attribution is normal.
        selected = (requests == code) & (request is not Request.RUN_QUEUE)
        if lost[selected].sum() < LEAST_PART * lost.sum():
            continue
        if lost[selected & much].sum() > LEAST_PART * max(lost[selected].sum(), 1.0):
            yield (
                f"for {percent(lost[selected & much].sum() / lost[selected].sum())} of the time "
                f"lost to {_NAMES[request]}, others used over {MUCH_OVER:.0f} times what explains "
                "it: trust the order of those blamed more than their shares"
            )


def _unknown_slots(columns: BlameColumns) -> Iterator[str]:
    if columns.slots.unknown_cores:
        yield (
            f"the cores of {columns.slots.unknown_cores} executors are not recorded: the most "
            "slots they ever filled at once was taken"
        )


def _estimated_executors(columns: BlameColumns, demands: pd.DataFrame) -> Iterator[str]:
    """Say how the size of the clusters was found, which no event log holds."""
    lost = demands["lost_ms"].to_numpy()
    waited = demands["request"].to_numpy() == REQUESTS.index(Request.EXECUTOR_WAIT)
    if lost[waited].sum() <= LEAST_PART * max(lost.sum(), 1.0):
        return
    shortages = columns.shortages.values()
    if shortages:
        most = max(float((one.own + one.others).max()) for one in shortages)
        asked = all(one.measured for one in shortages)
        yield (
            "waits for executors are estimated, the cluster's size guessed from the most held at "
            "once: it counts as full where its applications held as many slots as ever around then "
            f"({most:.0f} at most); the limit of a queue or a quota looks the same"
            + ("" if asked else ", and so does an application that asked for no more executors")
        )


def _holders_without_tasks(columns: BlameColumns) -> Iterator[str]:
    """Name applications that held slots but have no stage that could be blamed."""
    if not columns.shortages:
        return
    tables = columns.tables
    cluster, offers = clusters_of(tables), executor_offers(tables)
    contended = np.unique(cluster[list(columns.shortages)])
    for app in np.unique(offers.app[np.isin(cluster[offers.app], contended)]).tolist():
        if not (columns.app == app).any():
            mine = offers.of(offers.app == app)
            slots = most_at_once(mine.app * 0, mine.since, mine.until, mine.cores, 1)[0]
            name = tables.applications["name"].iloc[app] or "an application"
            yield (
                f"{short(str(name))} held {slots:.0f} slots and ran no task: what "
                "others lost waiting for them is unattributed"
            )


def _unknown_cached_blocks(columns: BlameColumns) -> Iterator[str]:
    """Say how to have it recorded who held the storage memory that was waited for."""
    waited = np.nan_to_num(columns.wait(Request.STORAGE_MEMORY))
    told = np.unique(columns.tables.cached["app"].to_numpy(np.int64))
    untold = waited[~np.isin(columns.app, told)].sum()
    if untold >= LEAST_UNTOLD_MS and untold > LEAST_PART * waited.sum():
        yield (
            f"who held the storage memory that tasks waited for ({duration(float(untold))}) is not "
            "recorded, and so is unattributed: set spark.eventLog.logBlockUpdates.enabled=true"
        )


def _one_machine(columns: BlameColumns) -> Iterator[str]:
    names = columns.tables.hosts["host"].to_numpy()
    for row, name in enumerate(names):
        if name in ONE_MACHINE_NAMES:
            apps = len(np.unique(columns.app[columns.host == row]))
            if apps > 1:
                yield (
                    f"{apps} applications ran on a host called {name}: they are taken to have "
                    "shared one machine"
                )
