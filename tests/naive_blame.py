"""Blame straight from the formulas, one pair of tasks at a time: the reference for the sweep.

Eq. 2 (RATP), eq. 3 (slowdown), eq. 6 (blame) and eq. 4 (conservation), with loops and without
anything from ``iqcar.sweep`` or ``iqcar.usage``. Capacities of hosts come from
``iqcar.capacity``, which has tests of its own.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from iqcar.capacity import host_capacity
from iqcar.kinds import REQUESTS, Domain, Request, SourceUsage
from iqcar.tables import Tables

BYTES = (Request.SHUFFLE_FETCH, Request.IO_READ, Request.IO_WRITE)
MEMORY = (Request.EXECUTION_MEMORY, Request.STORAGE_MEMORY)


@dataclass
class NaiveDemand:
    """One target stage, request and host."""

    slowdown: float = 0.0
    lost: float = 0.0
    wait: float = 0.0
    ratp: float = 0.0
    known: float = 0.0
    known_lost: float = 0.0
    beta: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    beta_lost: dict[int, float] = field(default_factory=lambda: defaultdict(float))


def naive_blame(
    tables: Tables, waits: pd.DataFrame, usage: SourceUsage
) -> dict[tuple[int, Request, int], NaiveDemand]:
    """Blame per (target stage, request, host)."""
    return _Naive(tables, waits, usage).run()


def known(value: float) -> float:
    return value if math.isfinite(value) else 0.0


class _Naive:
    def __init__(self, tables: Tables, waits: pd.DataFrame, usage: SourceUsage) -> None:
        self.tables, self.usage = tables, usage
        self.tasks = tables.tasks.to_dict("records")
        self.waits = waits.to_dict("records")
        self.launches: dict[int, list[float]] = defaultdict(list)
        for task in self.tasks:
            task["ok"] = math.isfinite(task["launch_ms"]) and math.isfinite(task["finish_ms"])
            task["T"] = task["finish_ms"] - task["launch_ms"] if task["ok"] else 0.0
        for i, task in enumerate(self.tasks):
            if task["ok"] and math.isfinite(self.waits[i]["slot_wait_ms"]):
                self.launches[task["app"]].append(task["launch_ms"])
        self.capacity = {
            r: host_capacity(
                np.array([self.data(i, r) for i in range(len(self.tasks))]),
                waits[f"{r}_ms"].to_numpy(),
                tables.tasks["host"].to_numpy(np.int64),
                len(tables.hosts),
                np.array([self.crowd(i, r) for i in range(len(self.tasks))]),
            ).per_host
            for r in BYTES
        }
        self.memory = {e: self.most_memory(e) for e in range(len(tables.executors))}
        self.cores = [self.executor_cores(e) for e in range(len(tables.executors))]

    # --- eq. 2

    def wait(self, i: int, r: Request) -> float:
        return float(self.waits[i][f"{r}_ms"])

    def data(self, i: int, r: Request) -> float:
        task = self.tasks[i]

        def total(*names: str) -> float:
            values = [task[name] for name in names]
            if all(math.isnan(v) for v in values):
                return math.nan
            return sum(known(v) for v in values)

        if r is Request.SLOT_WAIT:
            wait = self.wait(i, r)
            if not task["ok"] or math.isnan(wait):
                return math.nan
            asked = task["launch_ms"] - wait
            mine = self.launches[task["app"]]
            return max(1, sum(asked < launch <= task["launch_ms"] for launch in mine))
        if r is Request.SHUFFLE_FETCH:
            return float(task["remote_bytes"])
        if r is Request.IO_READ:
            return float(task["input_bytes"])
        if r is Request.IO_WRITE:
            return total("shuffle_write_bytes", "output_bytes", "disk_spilled_bytes")
        if r in MEMORY:
            return float(task["peak_memory_bytes"])
        read = total("input_bytes", "remote_bytes", "local_bytes")
        return read if read > 0 else total("shuffle_write_bytes", "output_bytes")

    def crowd(self, i: int, r: Request) -> float:
        """Mean number of others in the device during the task's life."""
        pool = (r,) if r is Request.SHUFFLE_FETCH else (Request.IO_READ, Request.IO_WRITE)
        task, total = self.tasks[i], 0.0
        for j, other in enumerate(self.tasks):
            if i == j or not (task["ok"] and other["ok"]) or not task["host"] == other["host"] >= 0:
                continue
            begin = max(task["launch_ms"], other["launch_ms"])
            end = min(task["finish_ms"], other["finish_ms"])
            busy = sum(known(self.wait(j, part)) for part in pool) / max(other["T"], 1.0)
            total += max(end - begin, 0.0) * min(busy, 1.0)
        return total / max(task["T"], 1.0)

    def domain(self, i: int, r: Request) -> int:
        column = {Domain.APPLICATION: "app", Domain.HOST: "host", Domain.EXECUTOR: "executor"}
        return int(self.tasks[i][column[r.domain]])

    def best(self, domain: int, r: Request) -> float:
        speeds = [
            self.data(i, r) / self.wait(i, r)
            for i in range(len(self.tasks))
            if self.domain(i, r) == domain >= 0 and self.data(i, r) > 0 and self.wait(i, r) > 0
        ]
        return max(speeds, default=math.nan)

    # --- eq. 3: (S, C_h / c_tt, T_tt, known S, lost ms)

    def target(self, i: int, r: Request) -> tuple[float, float, float, float, float]:
        wait, task = self.wait(i, r), self.tasks[i]
        life = max(task["T"], 1.0)
        if r is Request.RUN_QUEUE and self.usage is not SourceUsage.PAPER:
            if math.isnan(wait):
                return 0, 1, task["T"], 0, 0
            cpu, gc = max(known(self.waits[i]["compute_ms"]), 1.0), self.waits[i]["gc_ms"]
            return (wait + gc) / cpu, (cpu + wait) / cpu, task["T"], gc / cpu, wait + gc
        if not wait > 0:
            return 0, 1, task["T"], 0, 0
        if r in BYTES or self.usage is SourceUsage.PAPER:
            if self.usage is SourceUsage.PAPER:
                capacity = self.best(self.domain(i, r), r)
            elif task["host"] < 0:
                capacity = math.nan
            else:
                capacity = self.capacity[r][task["host"]]
            data = self.data(i, r)
            if not data > 0 or math.isnan(capacity):
                return 0, 1, task["T"], 0, 0
            got = min(data / wait, capacity)
            slowdown = capacity / got - 1
            span = wait if r is Request.SLOT_WAIT else task["T"]
            return slowdown, 1 + slowdown, span, 0, wait * slowdown / (1 + slowdown)
        if r is Request.SLOT_WAIT:
            slowdown = wait / life
            nobody = self.slot_integral(task, task, wait)[1] if task["ok"] else 0.0
            return slowdown, 1 + slowdown, wait + life, min(nobody / life, slowdown), wait
        slowdown = wait / max(task["T"] - wait, 1.0)
        return slowdown, 1 + slowdown, task["T"], 0, wait

    # --- eq. 6: the source's used share of the capacity

    def source(self, i: int, r: Request) -> float:
        task, life = self.tasks[i], max(self.tasks[i]["T"], 1.0)
        wait, data = self.wait(i, r), self.data(i, r)
        if self.usage is SourceUsage.PAPER:
            best = self.best(self.domain(i, r), r)
            if not data > 0 or math.isnan(wait):
                return 0.0
            return min(known(data / wait / best), 1.0) if wait > 0 else 1.0
        if r in BYTES:
            pool = (r,) if r is Request.SHUFFLE_FETCH else (Request.IO_READ, Request.IO_WRITE)
            return min(sum(self.device_share(i, part, pool) for part in pool), 1.0)
        if r is Request.RUN_QUEUE:
            return min(known(self.waits[i]["compute_ms"]) / life, 1.0)
        if r in MEMORY:
            if not task["T"] > 0 or task["executor"] < 0:
                return 0.0
            held = known(task["peak_memory_bytes"])
            return held / self.memory[task["executor"]] if held > 0 else 0.0
        return min(max(1 - known(wait) / life, 0.0), 1.0)

    def device_share(self, i: int, part: Request, pool: tuple[Request, ...]) -> float:
        task = self.tasks[i]
        life = max(task["T"], 1.0)
        if self.usage is SourceUsage.ACTIVE and self.wait(i, part) > 0:
            return self.wait(i, part) / life
        if task["host"] < 0:
            return 0.0
        speeds = [self.capacity[p][task["host"]] for p in (part, *pool)]
        speed = next((s for s in speeds if not math.isnan(s)), math.nan)
        return min(known(self.data(i, part) / speed) / life, 1.0)

    def most_memory(self, executor: int) -> float:
        mine = [
            t
            for t in self.tasks
            if t["executor"] == executor and t["T"] > 0 and known(t["peak_memory_bytes"]) > 0
        ]
        return max(
            (
                sum(
                    o["peak_memory_bytes"]
                    for o in mine
                    if o["launch_ms"] <= t["launch_ms"] < o["finish_ms"]
                )
                for t in mine
            ),
            default=0.0,
        )

    # --- slots: ∫ held / N dt

    def task_cpus(self, task: dict[str, float]) -> float:
        return float(self.tables.applications["task_cpus"][int(task["app"])])

    def executor_cores(self, e: int) -> float:
        cores = self.tables.executors["cores"][e]
        if cores > 0:
            return float(cores)
        mine = [t for t in self.tasks if t["executor"] == e and t["ok"]]
        return max(
            (
                sum(
                    self.task_cpus(o)
                    for o in mine
                    if o["launch_ms"] <= t["launch_ms"] < o["finish_ms"]
                )
                for t in mine
            ),
            default=0.0,
        )

    def slots_at(self, app: int, when: float) -> float:
        executors = self.tables.executors
        total = 0.0
        for e in range(len(executors)):
            added, removed = executors["added_ms"][e], executors["removed_ms"][e]
            since = -math.inf if math.isnan(added) else added
            until = math.inf if math.isnan(removed) else max(removed, since)
            if executors["app"][e] == app and since <= when < until:
                total += self.cores[e]
        held = sum(
            self.task_cpus(t)
            for t in self.tasks
            if t["ok"] and t["app"] == app and t["launch_ms"] <= when < t["finish_ms"]
        )
        return max(total, held)

    def slot_integral(
        self, target: dict[str, float], source: dict[str, float], wait: float
    ) -> tuple[float, float]:
        """(∫ held/N over target's wait and source's run, ms of the wait without any slot)."""
        begin, end = target["launch_ms"] - wait, target["launch_ms"]
        moments = {begin, end}
        for t in self.tasks:
            if t["ok"]:
                moments |= {t["launch_ms"], t["finish_ms"]}
        for name in ("added_ms", "removed_ms"):
            moments |= {m for m in self.tables.executors[name] if math.isfinite(m)}
        cuts = sorted(m for m in moments if begin <= m <= end)
        share = nobody = 0.0
        for a, b in itertools.pairwise(cuts):
            slots = self.slots_at(int(target["app"]), (a + b) / 2)
            if slots == 0:
                nobody += b - a
            elif source["launch_ms"] <= a and b <= source["finish_ms"]:
                share += self.task_cpus(source) * (b - a) / slots
        return share, nobody

    # --- an estimated CPU wait is blamed only as far as the host's cores were in use

    def explicable(self, i: int, r: Request, used: list[float]) -> float:
        task = self.tasks[i]
        estimated = self.waits[i]["run_queue_evidence"] == 1
        if r is not Request.RUN_QUEUE or self.usage is SourceUsage.PAPER or not estimated:
            return 1.0
        cores = self.cores_of_host(int(task["host"]))
        if not task["ok"] or task["T"] <= 0 or task["host"] < 0 or math.isnan(cores):
            return 1.0
        use = 0.0
        for other, rate in zip(self.tasks, used, strict=True):
            if other["ok"] and other["host"] == task["host"] and other["stage"] >= 0:
                end = min(task["finish_ms"], other["finish_ms"])
                use += rate * max(end - max(task["launch_ms"], other["launch_ms"]), 0.0)
        return min(use / (task["T"] * cores), 1.0)

    def cores_of_host(self, host: int) -> float:
        executors = self.tables.executors
        mine = [e for e in range(len(executors)) if executors["host"][e] == host]
        if not mine or any(not executors["cores"][e] > 0 for e in mine):
            return math.nan
        lives = []
        for e in mine:
            added, removed = executors["added_ms"][e], executors["removed_ms"][e]
            since = -math.inf if math.isnan(added) else added
            until = math.inf if math.isnan(removed) else max(removed, since)
            lives.append((since, until, executors["cores"][e]))
        most = max(
            sum(c for since, until, c in lives if since <= when < until) for when, _, _ in lives
        )
        return most if most > 0 else math.nan

    # --- eq. 4 and the sums of eq. 8, 9

    def run(self) -> dict[tuple[int, Request, int], NaiveDemand]:
        demands: dict[tuple[int, Request, int], NaiveDemand] = {}
        for r in REQUESTS:
            used = [self.source(i, r) for i in range(len(self.tasks))]
            for i, task in enumerate(self.tasks):
                wait = max(known(self.wait(i, r)), 0.0)
                slowdown, stretch, span, known_part, lost = self.target(i, r)
                if task["stage"] < 0 or not (wait > 0 or lost > 0):
                    continue
                demand = demands.setdefault((task["stage"], r, task["host"]), NaiveDemand())
                data = self.data(i, r)
                demand.wait += wait
                demand.ratp += wait / data if data > 0 else 0.0
                demand.slowdown += slowdown
                demand.lost += lost
                if slowdown <= 0:
                    continue
                demand.known += known_part
                demand.known_lost += lost * known_part / slowdown
                raw = self.raw_blame(i, r, used, stretch, span)
                room = (slowdown - known_part) * self.explicable(i, r, used)
                total = sum(raw.values())
                scale = min(1.0, room / total) if total > 0 else 0.0
                for stage, beta in raw.items():
                    demand.beta[stage] += beta * scale
                    demand.beta_lost[stage] += beta * scale * lost / slowdown
        return demands

    def raw_blame(
        self, i: int, r: Request, used: list[float], stretch: float, span: float
    ) -> dict[int, float]:
        target, raw = self.tasks[i], defaultdict[int, float](float)
        if not target["ok"] or span <= 0:
            return raw
        for j, source in enumerate(self.tasks):
            same = self.domain(i, r) == self.domain(j, r) >= 0
            if i == j or not same or not source["ok"] or source["stage"] < 0:
                continue
            if r is Request.SLOT_WAIT and self.usage is not SourceUsage.PAPER:
                beta = self.slot_integral(target, source, self.wait(i, r))[0] / span * stretch
            else:
                begin, end = target["launch_ms"], target["finish_ms"]
                if r is Request.SLOT_WAIT:
                    begin, end = begin - self.wait(i, r), begin
                overlap = min(end, source["finish_ms"]) - max(begin, source["launch_ms"])
                beta = max(overlap, 0.0) / span * used[j] * stretch
            if beta > 0:
                raw[source["stage"]] += beta
        return raw
