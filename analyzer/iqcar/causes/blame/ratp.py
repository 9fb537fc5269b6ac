"""Computes how much a target lost and its sources used (iQCAR's RATP), and lists doubts of it.

Targets lose (iQCAR §4.1, eq. 2 and 3), sources use: the terms of eq. 6.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import pandas as pd

from iqcar.base.units import duration, percent, short
from iqcar.causes.blame.task_intervals import SHORTEST_MS, BlameColumns, Pieces
from iqcar.enums import REQUESTS, Request, WaitClass
from iqcar.model.demand.estimate import NEGLIGIBLE, Contention, Demand, StageRates
from iqcar.model.demand.host_samples import outside_share
from iqcar.model.waits.columns import ESTIMATED, evidence_column
from iqcar.model.waits.shared_cluster import clusters_of, executor_offers
from iqcar.tables.arrays import (
    Floats,
    Ints,
    known_or_zero,
    most_at_once,
    positive_or_zero,
    share_of,
    sum_known,
)


def of_domain(per_domain: Floats, domain: Ints) -> Floats:
    """Return the value of each task's domain; NaN where it has none."""
    if len(per_domain) == 0:
        return np.full(len(domain), np.nan)
    return np.where(domain >= 0, per_domain[np.maximum(domain, 0)], np.nan)


Users: TypeAlias = BlameColumns | Pieces
"""Users of resources: tasks or pieces of them, with columns of the same names."""
NOBODYS = (Request.THROTTLED, Request.PAGE_FAULT)
"""Waits that are known causes whole: whoever used a quota up, without it nobody would have waited;
and no log says who displaced a page."""
MOST_LOST = 0.999
"""Largest share of a wait in a device that is lost."""
ROUNDING = 1e-9
"""Differences below this share of the minuend are rounding errors."""

BYTES_REQUESTS = (Request.SHUFFLE_FETCH, Request.IO_READ, Request.IO_WRITE)
"""Requests whose capacity is a speed: bytes per ms of a host's network or disk."""
ONE_DEVICE = {
    Request.SHUFFLE_FETCH: (Request.SHUFFLE_FETCH,),
    Request.IO_READ: (Request.IO_READ, Request.IO_WRITE),
    Request.IO_WRITE: (Request.IO_READ, Request.IO_WRITE),
}
"""Requests that use the same device: writers delay readers."""


@dataclass(frozen=True)
class Loss:
    """Loss of every task to one request.

    wait: (n_tasks,), ms; time waited; 0 where unknown.
    ratp: (n_tasks,), ms per data unit; WT / DP (eq. 2); 0 where no data was processed.
    slowdown: (n_tasks,) S (eq. 3), ≥ 0.
    stretch: (n_tasks,) ``C_h / c_tt``, ≥ 1: the factor of a source's used share in eq. 6.
    span: (n_tasks,), ms; T_tt: the time over which ``c_tt`` was measured.
    known: (n_tasks,) the part of S that has a known cause (β_known of eq. 4), ≤ S.
    lost: (n_tasks,), ms; time lost: ``WT · S / (1 + S)`` where S is computed from data, else the
        wait (for the processor with garbage collection). Its known part is ``lost · known / S``.
    """

    request: Request
    wait: Floats
    ratp: Floats
    slowdown: Floats
    stretch: Floats
    span: Floats
    known: Floats
    lost: Floats

    @classmethod
    def of_all(
        cls, request: Request, wait: Floats, ratp: Floats, slowdown: Floats, span: Floats
    ) -> Loss:
        """Return the loss where the whole wait is lost, for no known cause."""
        return cls(
            request=request, wait=wait, ratp=ratp, slowdown=slowdown, stretch=1 + slowdown,
            span=span, known=np.zeros_like(wait), lost=wait,
        )  # fmt: skip


def data_processed(columns: Users, request: Request) -> Floats:
    """Return the data that each task or piece processed for a request (iQCAR table 4).

    For a slot wait these are the slots handed out; for processor and locks the bytes read from
    input and shuffle, else the bytes written; for memory the peak execution memory; for shuffle
    fetches the bytes from other hosts; for reads the input bytes; for writes the bytes written to
    shuffle files, spill and output. NaN where unknown.
    """
    number = columns.number
    if request.before_launch:
        return columns.slots_offered
    if request is Request.SHUFFLE_FETCH:
        return number("remote_bytes")
    if request is Request.IO_READ:
        return number("input_bytes")
    written = sum_known(number("shuffle_write_bytes"), number("output_bytes"))
    if request is Request.IO_WRITE:
        return sum_known(written, number("disk_spilled_bytes"))
    if request in (Request.EXECUTION_MEMORY, Request.STORAGE_MEMORY):
        return number("peak_memory_bytes")
    read = sum_known(number("input_bytes"), number("remote_bytes"), number("local_bytes"))
    return np.where(read > 0, read, written)


def measure_loss(
    columns: BlameColumns, request: Request, contention: dict[Request, Contention]
) -> Loss:
    """Compute every task's loss to one request.

    Zero for a task whose wait is unknown. The speed in a device is compared with that of the
    stage's tasks without contention; for processor, slots, memory and locks, the waiting time with
    the time in which the task held the resource. In a device, a wait without data (DP 0 or unknown)
    has no ideal to compare with: it counts as a wait without loss.

    contention: what tasks lost in devices; see :class:`iqcar.model.demand.estimate.Demand`.
    """
    wait, ratp = wait_and_ratp(columns, request)
    if request is Request.EXECUTOR_WAIT:
        slowdown = wait / np.maximum(columns.span, SHORTEST_MS)
        return Loss.of_all(request, wait, ratp, slowdown, columns.span)
    if request in BYTES_REQUESTS:
        return _device_loss(columns, wait, ratp, request, contention.get(request))
    if request is Request.SLOT_WAIT:
        return _slot_loss(columns, wait, ratp)
    if request is Request.RUN_QUEUE:
        return _processor_loss(columns, wait, ratp)
    slowdown = wait / np.maximum(columns.span - wait, SHORTEST_MS)
    loss = Loss.of_all(request, wait, ratp, slowdown, columns.span)
    return replace(loss, known=slowdown) if request in NOBODYS else loss


def wait_and_ratp(columns: BlameColumns, request: Request) -> tuple[Floats, Floats]:
    """Return the waiting time of every task, 0 where unknown, and WT / DP (eq. 2)."""
    wait = columns.wait(request)
    wait = np.where(wait > 0, wait, 0.0)
    data = data_processed(columns, request)
    return wait, np.where(data > 0, wait / np.where(data > 0, data, 1.0), 0.0)


def _device_loss(
    columns: BlameColumns, wait: Floats, ratp: Floats, request: Request, found: Contention | None
) -> Loss:
    """Compute the loss to other tasks in a device, and to a slow host, which is a known cause."""
    to_tasks, to_host = (found.to_tasks, found.to_host) if found else (0.0 * wait, 0.0 * wait)
    # A wait without any ideal time would be an infinite slowdown.
    share = np.minimum(1.0 - (1.0 - to_tasks) * (1.0 - to_host), MOST_LOST)
    slowdown = share / (1.0 - share)
    known = slowdown * share_of((1.0 - to_tasks) * to_host, share)
    loss = Loss.of_all(request, wait, ratp, slowdown, columns.span)
    return replace(loss, known=known, lost=wait * share)


def _slot_loss(columns: BlameColumns, wait: Floats, ratp: Floats) -> Loss:
    """Compute the loss of a task that ran R after waiting W: it got R / (R + W) of a slot.

    T_tt is W + R, the time over which that share was measured, so the part of S that falls on slots
    idle during the wait stays unattributed. Waiting without any executor is a known cause. Of a
    task that waited for executors too, sources are blamed for this part of the wait only.
    """
    ran = np.maximum(columns.span, SHORTEST_MS)
    slowdown = wait / ran
    known = np.minimum(columns.slots.no_executor_ms / ran, slowdown)
    to_launch = wait + known_or_zero(columns.wait(Request.EXECUTOR_WAIT))
    stretch = (1 + slowdown) * share_of(wait, to_launch)
    loss = Loss.of_all(Request.SLOT_WAIT, wait, ratp, slowdown, wait + ran)
    return replace(loss, stretch=stretch, known=known)


def _processor_loss(columns: BlameColumns, wait: Floats, ratp: Floats) -> Loss:
    """Compute the loss against one core, c_tt = CPU / (CPU + wait); GC is a known cause of it."""
    measured = np.isfinite(columns.wait(Request.RUN_QUEUE))
    cpu = np.maximum(known_or_zero(columns.compute()), SHORTEST_MS)
    gc = np.where(measured, known_or_zero(columns.waits["gc_ms"].to_numpy(np.float64)), 0.0)
    gc = np.maximum(gc, 0.0)
    lost = wait + gc
    loss = Loss.of_all(Request.RUN_QUEUE, wait, ratp, lost / cpu, columns.span)
    return replace(loss, stretch=1 + wait / cpu, known=gc / cpu, lost=lost)


def share_of_executors(pieces: Pieces, request: Request) -> Floats:
    """Return the part of each task's slowdown that is not the doing of programs outside executors.

    Threads that wait for a processor wait for whoever uses one, in proportion to the use: what
    programs outside the executors used of it, by the samples of the host at that moment, stays
    unattributed (eq. 4). Each piece of a task counts by the wait in it. Shape (n_tasks,). From 0 to
    1; 1 for every other request, and where no host was sampled.
    """
    tables = pieces.columns.tables
    if request is not Request.RUN_QUEUE or len(tables.samples) == 0:
        return np.ones(len(pieces.columns.span))
    outside = outside_share(tables, pieces.host, pieces.launch, pieces.finish, pieces.compute())
    weight = pieces.span * pieces.emphasis(request)
    return 1.0 - share_of(pieces.total(weight * outside), pieces.total(weight))


def used_share(columns: Users, request: Request, demand: Demand) -> Floats:
    """Return ``u_st = c_st / C_h`` ≥ 0 of each source, a task or a piece of one.

    Shape (n_tasks,) or (n_pieces,). Cores for the processor, slots for slots, else a share of the
    capacity; 0 where the source used nothing or its use is unknown.

    request: what the target waits for.
    demand: devices, and own rates of stages in them.
    """
    if request is Request.SLOT_WAIT:
        return columns.slots.held
    if request in ONE_DEVICE:
        return _device_share(columns, request, demand)
    life = np.maximum(columns.span, SHORTEST_MS)
    if request is Request.EXECUTION_MEMORY:
        return _memory_share(columns)
    if request is Request.RUN_QUEUE:
        return np.minimum(positive_or_zero(columns.compute()) / life, 1.0)
    # Nobody records who sends a notification; limits and pages are nobody's fault.
    return np.zeros(len(life))


def most_explicable(columns: BlameColumns, loss: Loss, found: Contention | None) -> Floats:
    """Return the largest part of each task's slowdown that other tasks can explain.

    An estimated CPU wait is the unexplained rest of a task's time, and may contain much that is no
    CPU wait (calls to the driver, sleep, storage that reports no scan time). Others explain of it
    only what the load of the processor does. A measured wait needs no such bound. Shape (n_tasks,).
    Infinite where nothing bounds it.

    found: what the tasks lost at the request's device, if that is known.
    """
    unbounded = np.full(len(loss.wait), np.inf)
    if loss.request is not Request.RUN_QUEUE:
        return unbounded
    estimated = columns.waits[evidence_column(loss.request)].to_numpy() == ESTIMATED
    if found is None:
        return np.where(estimated, 0.0, unbounded)
    in_device = positive_or_zero(columns.compute()) + loss.wait
    explained = np.minimum(share_of(found.to_tasks * in_device, loss.wait), 1.0)
    return np.where(estimated, loss.slowdown * explained, unbounded)


def _device_share(columns: Users, request: Request, demand: Demand) -> Floats:
    """Return the used part of the capacity of a device; reads and writes share a disk.

    Where nobody is likely to have waited for another, the capacity is unknown: a source then counts
    by its time in the device.
    """
    life, devices = np.maximum(columns.span, SHORTEST_MS), demand.devices
    known = [part for part in ONE_DEVICE[request] if part in devices]
    share = np.zeros(len(life))
    for part in ONE_DEVICE[request]:
        # An unknown speed (output has no write time) is that of the device's other request.
        speeds = np.full(1 + int(columns.host.max(initial=0)), np.nan)
        if known:
            speeds = devices[part if part in known else known[0]].per_host
        ideal = positive_or_zero(data_processed(columns, part)) / of_domain(speeds, columns.host)
        used = np.minimum(positive_or_zero(ideal) / life, 1.0)
        if part in demand.rates and devices[part].contended >= NEGLIGIBLE:
            used *= _shared(demand.rates[part], columns.stage)
        else:
            time = columns.wait(part)
            used = np.where(time > 0, positive_or_zero(time) / life, used)
        share += used
    return np.minimum(share, 1.0)


def _shared(rates: StageRates, stage: Ints) -> Floats:
    """Return the probability that each user shares the device; 1 where its stage is unknown."""
    last = max(int(stage.max(initial=0)), int(rates.stage.max(initial=0)))
    shared = np.ones(last + 2)
    shared[rates.stage] = rates.shared
    return shared[stage]


def _memory_share(columns: Users) -> Floats:
    """Return memory held as a share of the maximum that the executor's tasks held at one time."""
    held = positive_or_zero(columns.held())
    rows = np.flatnonzero((held > 0) & (columns.executor >= 0) & (columns.span > 0))
    executor = columns.executor[rows]
    most = most_at_once(
        executor,
        columns.launch[rows],
        columns.finish[rows],
        held[rows],
        int(executor.max(initial=-1)) + 1,
    )
    share = np.zeros(len(held))
    share[rows] = held[rows] / most[executor]
    return share


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
