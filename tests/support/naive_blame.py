"""Blame straight from the formulas, one pair of tasks at a time: the reference for the sweep.

Eq. 2 (RATP), eq. 3 (slowdown), eq. 6 (blame; eq. 5 where tasks have profiles) and eq. 4
(conservation), with loops and without anything from ``iqcar.causes.blame.sweep``,
``iqcar.causes.blame.task_intervals``, ``iqcar.causes.blame.ratp`` or
``iqcar.model.demand``. Devices are given; what tasks lost in them comes from
:mod:`tests.support.naive_demand`.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from iqcar.causes.blame.attribute import CORES, SPEEDS
from iqcar.enums import REQUESTS, Domain, Request
from iqcar.model.demand.device import Device
from iqcar.model.demand.estimate import ENOUGH_BYTES, ENOUGH_MS, NEGLIGIBLE
from iqcar.model.waits.columns import ESTIMATED
from iqcar.tables import Tables
from tests.support import naive_demand


def life_of(executor: dict[str, Any]) -> tuple[float, float]:
    """From when to when an executor was there."""
    added, removed = executor["added_ms"], executor["removed_ms"]
    since = -math.inf if math.isnan(added) else added
    return since, math.inf if math.isnan(removed) else max(removed, since)


class NaiveSlots:
    """Who held how many slots of an application when, as :mod:`iqcar.causes.blame.slots` tells."""

    tasks: list[dict[str, Any]]
    executors: list[dict[str, Any]]
    cores: list[float]
    cpus_of_task: list[float]

    def task_cpus(self, task: dict[str, float]) -> float:
        return self.cpus_of_task[task["app"]]

    def executor_cores(self, e: int) -> float:
        cores = self.executors[e]["cores"]
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
        total = 0.0
        for executor, cores in zip(self.executors, self.cores, strict=True):
            since, until = life_of(executor)
            if executor["app"] == app and since <= when < until:
                total += cores
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
            moments |= {e[name] for e in self.executors if math.isfinite(e[name])}
        cuts = sorted(m for m in moments if begin <= m <= end)
        share = nobody = 0.0
        for a, b in itertools.pairwise(cuts):
            slots = self.slots_at(int(target["app"]), (a + b) / 2)
            if slots == 0:
                nobody += b - a
            elif source["launch_ms"] <= a and b <= source["finish_ms"]:
                share += self.task_cpus(source) * (b - a) / slots
        return share, nobody

    def cores_of_host(self, host: int) -> float:
        mine = [e for e in self.executors if e["host"] == host]
        if not mine or any(not e["cores"] > 0 for e in mine):
            return math.nan
        lives = [(*life_of(e), e["cores"]) for e in mine]
        most = max(
            sum(c for since, until, c in lives if since <= when < until) for when, _, _ in lives
        )
        return most if most > 0 else math.nan


def known(value: float) -> float:
    return value if math.isfinite(value) else 0.0


class NaivePieces(NaiveSlots):
    """Pieces of every task: (begin, end, what its profile says of them; None = no interval)."""

    waits: list[dict[str, Any]]
    records: list[dict[str, Any]]
    intervals: dict[int, list[dict[str, Any]]]
    pieces: list[list[tuple[float, float, dict[str, float] | None]]]

    def read(self, i: int) -> float:
        """Input bytes; 16 a row where the stage's tasks counted less than half a byte a row."""
        task = self.tasks[i]
        alike = [one for one in self.tasks if one["stage"] == task["stage"]]
        size, rows = (
            sum(known(one[name]) for one in alike) for name in ("input_bytes", "input_records")
        )
        counted = float(task["input_bytes"])
        if size >= rows / 2:
            return counted
        mine = 16.0 * float(task["input_records"])
        return mine if math.isnan(counted) or mine > counted else counted

    def cut(self, i: int) -> list[tuple[float, float, dict[str, float] | None]]:
        task, rows = self.tasks[i], self.intervals.get(i, [])
        launch, finish = task["launch_ms"], task["finish_ms"]
        if not rows or not task["T"] > 0:
            return [(launch, finish, None)]
        first, last = rows[0]["start_ms"], rows[-1]["end_ms"]
        begin = min(max(first, launch), max(finish - (last - first), launch))
        cuts: list[tuple[float, float, dict[str, float] | None]] = [(launch, begin, None)]
        move = begin - first
        cuts += [(row["start_ms"] + move, row["end_ms"] + move, row) for row in rows]
        cuts.append((cuts[-1][1], finish, None))
        return [(b, e, row) for b, e, row in cuts if e > b]

    def part(self, i: int, piece: int, column: str) -> float:
        """The piece's part of what the task did in all: by its profile, else by time."""
        pieces = self.pieces[i]
        if len(pieces) == 1 and pieces[0][2] is None:
            return 1.0
        done = [known(row.get(column, 0.0)) if row else 0.0 for _, _, row in pieces]
        if sum(done) > 0:
            return done[piece] / sum(done)
        return (pieces[piece][1] - pieces[piece][0]) / self.tasks[i]["T"]

    def held(self, i: int, piece: int) -> float:
        """Bytes of execution memory: by the profile, else by the record, else by Spark's metric."""
        task, rows = self.tasks[i], [row for _, _, row in self.pieces[i]]
        levels = [math.nan if row is None else row["held_bytes"] for row in rows]
        if any(math.isfinite(level) for level in levels):
            return known(levels[piece])
        for record in self.records:
            if record["task"] == i and math.isfinite(record["mean_held_bytes"]):
                part = min(known(record["wall_ms"]) / max(task["T"], 1.0), 1.0)
                return float(record["mean_held_bytes"] * part)
        waited = max(known(self.waits[i]["execution_memory_ms"]), 0.0)
        had = 1.0 - min(waited / task["T"], 1.0) if task["T"] > 0 else 1.0
        return known(task["peak_memory_bytes"]) * had

    def most_memory(self, executor: int) -> float:
        """The most ever held at once; it begins where some piece begins."""
        mine = [
            (begin, end, self.held(i, piece))
            for i, task in enumerate(self.tasks)
            if task["executor"] == executor and task["T"] > 0
            for piece, (begin, end, _) in enumerate(self.pieces[i])
        ]
        return max(
            (sum(held for since, until, held in mine if since <= at < until) for at, _, _ in mine),
            default=0.0,
        )

    def emphasis(self, i: int, piece: int, r: Request) -> float:
        """Part of the task's wait that lies in the piece, over the piece's part of its time."""
        begin, end, _ = self.pieces[i][piece]
        life = self.tasks[i]["T"]
        return self.part(i, piece, f"{r}_ms") / ((end - begin) / life) if end > begin else 1.0


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
    of_others: float = 0.0
    of_others_lost: float = 0.0
    undivided: bool = False
    beta: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    beta_lost: dict[int, float] = field(default_factory=lambda: defaultdict(float))


def naive_blame(
    tables: Tables, waits: pd.DataFrame, devices: dict[Request, Device]
) -> dict[tuple[int, Request, int], NaiveDemand]:
    """Blame per (target stage, request, host)."""
    return NaiveBlame(tables, waits, devices).run()


class NaiveBlame(NaivePieces):
    """Every quantity of one log; ``lost`` is what each task lost in each device."""

    def __init__(
        self,
        tables: Tables,
        waits: pd.DataFrame,
        devices: dict[Request, Device],
    ) -> None:
        self.devices = devices
        self.tasks = tables.tasks.to_dict("records")
        self.waits = waits.to_dict("records")
        self.records = tables.task_records.to_dict("records")
        self.lock_owners = tables.lock_owners.to_dict("records")
        self.executors = tables.executors.to_dict("records")
        self.cached = tables.cached.to_dict("records")
        self.cpus_of_task = tables.applications["task_cpus"].tolist()
        self.query_of_stage = tables.stages["query"].tolist()
        self.launches: dict[int, list[float]] = defaultdict(list)
        for task in self.tasks:
            task["ok"] = math.isfinite(task["launch_ms"]) and math.isfinite(task["finish_ms"])
            task["T"] = task["finish_ms"] - task["launch_ms"] if task["ok"] else 0.0
        for i, task in enumerate(self.tasks):
            if task["ok"] and math.isfinite(self.waits[i]["slot_wait_ms"]):
                self.launches[task["app"]].append(task["launch_ms"])
        self.intervals = defaultdict(list)
        for row in tables.intervals.sort_values("start_ms").to_dict("records"):
            self.intervals[row["task"]].append(row)
        self.pieces = [self.cut(i) for i in range(len(self.tasks))]
        self.memory = {e: self.most_memory(e) for e in range(len(self.executors))}
        self.cores = [self.executor_cores(e) for e in range(len(self.executors))]
        self.shared: dict[Request, dict[int, float]] = {}
        self.lost = self.losses_in_devices()

    # --- eq. 2

    def wait(self, i: int, r: Request) -> float:
        return float(self.waits[i][f"{r}_ms"])

    def data(self, i: int, r: Request) -> float:
        task = self.tasks[i]

        def total(*names: str) -> float:
            values = [self.read(i) if name == "input_bytes" else task[name] for name in names]
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
            return self.read(i)
        if r is Request.IO_WRITE:
            return total("shuffle_write_bytes", "output_bytes", "disk_spilled_bytes")
        if r in MEMORY:
            return float(task["peak_memory_bytes"])
        read = total("input_bytes", "remote_bytes", "local_bytes")
        return read if read > 0 else total("shuffle_write_bytes", "output_bytes")

    # --- what tasks lost in devices

    def losses_in_devices(self) -> dict[Request, list[tuple[float, float, float]]]:
        found = {}
        for r, device in self.devices.items():
            uses = self.uses(r)
            if r is not Request.RUN_QUEUE or self.has_estimates():
                least = ENOUGH_MS if r is Request.RUN_QUEUE else ENOUGH_BYTES
                found[r] = naive_demand.losses(uses, device, least)
                self.shared[r] = naive_demand.shared(uses, device, least)
        return found

    def has_estimates(self) -> bool:
        return any(self.estimated(i) for i in range(len(self.tasks)))

    def estimated(self, i: int, r: Request = Request.RUN_QUEUE) -> bool:
        return bool(self.waits[i][f"{r}_evidence"] == ESTIMATED)

    def uses(self, r: Request) -> list[naive_demand.Use]:
        """What each task did in the device of a request, beside all others there.

        Others are counted for each piece of a task, and a piece counts by its time in the device.
        """
        count = range(len(self.tasks))
        every = [[self.use(i, at, r) for at in range(len(self.pieces[i]))] for i in count]
        band = CORES if r is Request.RUN_QUEUE else SPEEDS
        naive_demand.fill_in([use for uses in every for use in uses], band)
        found = []
        for i in count:
            whole = naive_demand.joined(every[i])
            if r is Request.RUN_QUEUE:
                whole.data = whole.data if self.estimated(i) else 0.0
            else:
                whole.data, whole.wait = self.moved(i, r), self.waited(i, r)
            found.append(whole)
        return found

    def use(self, i: int, piece: int, r: Request) -> naive_demand.Use:
        """What one piece of a task did in the device of a request."""
        task, (begin, end, _) = self.tasks[i], self.pieces[i][piece]
        launch, finish = (begin, end) if task["ok"] else (math.nan, math.nan)
        if r is Request.RUN_QUEUE:
            data = max(known(self.waits[i]["compute_ms"]), 0.0) * self.part(i, piece, "cpu_ms")
            wait = data + self.waited(i, r) * self.part(i, piece, f"{r}_ms")
        else:
            pool = (r,) if r is Request.SHUFFLE_FETCH else (Request.IO_READ, Request.IO_WRITE)
            data = sum(self.moved(i, p) * self.part(i, piece, f"{p}_ms") for p in pool)
            wait = sum(self.waited(i, p) * self.part(i, piece, f"{p}_ms") for p in pool)
        return naive_demand.Use(
            data, wait, launch, finish, task["host"], task["stage"], owner=self.owner(task["stage"])
        )

    def owner(self, stage: int) -> int:
        """A number that the tasks of a query share; of a stage where there is no query."""
        query = self.query_of_stage[stage] if stage >= 0 else -1
        return query if query >= 0 else -2 - max(stage, -1)

    def moved(self, i: int, r: Request) -> float:
        return max(known(self.data(i, r)), 0.0)

    def waited(self, i: int, r: Request) -> float:
        return max(known(self.wait(i, r)), 0.0)

    def domain(self, i: int, r: Request) -> int:
        column = {Domain.APPLICATION: "app", Domain.HOST: "host", Domain.EXECUTOR: "executor"}
        return int(self.tasks[i][column[r.domain]])

    # --- eq. 3: (S, C_h / c_tt, T_tt, known S, lost ms)

    def target(self, i: int, r: Request) -> tuple[float, float, float, float, float]:
        wait, task = self.wait(i, r), self.tasks[i]
        life = max(task["T"], 1.0)
        if r is Request.RUN_QUEUE:
            if math.isnan(wait):
                return 0, 1, task["T"], 0, 0
            cpu, gc = max(known(self.waits[i]["compute_ms"]), 1.0), self.waits[i]["gc_ms"]
            return (wait + gc) / cpu, (cpu + wait) / cpu, task["T"], gc / cpu, wait + gc
        if not wait > 0:
            return 0, 1, task["T"], 0, 0
        if r in BYTES:
            others, _, host = self.lost[r][i] if r in self.lost else (0.0, 0.0, 0.0)
            # A speed v = ideal · (1 − others) · (1 − host).
            share = min(1 - (1 - others) * (1 - host), 0.999)
            slowdown = share / (1 - share)
            of_host = slowdown * (1 - others) * host / share if share > 0 else 0.0
            return slowdown, 1 + slowdown, task["T"], of_host, wait * share
        if r is Request.SLOT_WAIT:
            slowdown = wait / life
            nobody = self.slot_integral(task, task, wait)[1] if task["ok"] else 0.0
            return slowdown, 1 + slowdown, wait + life, min(nobody / life, slowdown), wait
        slowdown = wait / max(task["T"] - wait, 1.0)
        of_limit = slowdown if r in (Request.THROTTLED, Request.PAGE_FAULT) else 0
        return slowdown, 1 + slowdown, task["T"], of_limit, wait

    # --- eq. 6: the source's used share of the capacity

    def source(self, i: int, r: Request, piece: int = 0) -> float:
        task = self.tasks[i]
        begin, end, _ = self.pieces[i][piece]
        length = end - begin if task["ok"] else 0.0
        life = max(length, 1.0)
        if r in BYTES:
            pool = (r,) if r is Request.SHUFFLE_FETCH else (Request.IO_READ, Request.IO_WRITE)
            return min(sum(self.device_share(i, part, pool, piece) for part in pool), 1.0)
        if r is Request.RUN_QUEUE:
            compute = known(self.waits[i]["compute_ms"]) * self.part(i, piece, "cpu_ms")
            return min(compute / life, 1.0)
        if r in MEMORY:
            if not length > 0 or task["executor"] < 0:
                return 0.0
            held = self.held(i, piece)
            return held / self.memory[task["executor"]] if held > 0 else 0.0
        return 0.0  # notifications, and locks: lock_blame

    def device_share(
        self, i: int, part: Request, pool: tuple[Request, ...], piece: int = 0
    ) -> float:
        task = self.tasks[i]
        begin, end, _ = self.pieces[i][piece]
        life = max(end - begin, 1.0) if task["ok"] else 1.0
        mine = self.part(i, piece, f"{part}_ms")
        contended = part in self.devices and self.devices[part].contended >= NEGLIGIBLE
        if not contended and self.wait(i, part) * mine > 0:
            return self.wait(i, part) * mine / life
        device = next((self.devices[p] for p in (part, *pool) if p in self.devices), None)
        if task["host"] < 0 or device is None:
            return 0.0
        best = device.log_capacity if device.contended >= 0.5 else device.log_fastest
        speed = math.exp(best + device.slower[task["host"]])
        used = min(known(self.data(i, part) * mine / speed) / life, 1.0)
        return used * self.shared[part].get(task["stage"], 1.0) if contended else used

    # --- of an estimated CPU wait others explain no more than the load of the processor does

    def explicable(self, i: int, r: Request) -> float:
        if r is not Request.RUN_QUEUE or not self.estimated(i):
            return math.inf
        if r not in self.lost:
            return 0.0
        wait = self.waited(i, r)
        in_device = max(known(self.waits[i]["compute_ms"]), 0.0) + wait
        slowdown = self.target(i, r)[0]
        lost = self.lost[r][i][0] * in_device
        return slowdown * min(lost / wait, 1.0) if wait > 0 else 0.0

    # --- eq. 4 and the sums of eq. 8, 9

    def run(self) -> dict[tuple[int, Request, int], NaiveDemand]:
        demands: dict[tuple[int, Request, int], NaiveDemand] = {}
        named = all(task["stage"] >= 0 for task in self.tasks)
        for r in REQUESTS:
            if r is Request.EXECUTOR_WAIT:
                continue  # tests/causes/blame/test_executor_blame.py has a reference for it
            used = [
                [self.source(i, r, piece) for piece in range(len(self.pieces[i]))]
                for i in range(len(self.tasks))
            ]
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
                room = min(slowdown - known_part, self.explicable(i, r))
                total = sum(raw.values())
                scale = room / total if total > 0 else 0.0
                told = r in BYTES and r in self.lost
                told |= r is Request.EXECUTION_MEMORY and self.estimated(i, r)
                if not told or not named:
                    scale = min(scale, 1.0)
                if total > 0 and r in self.lost and self.lost[r][i][0] > 0:
                    lost_to = self.lost[r][i][1] / self.lost[r][i][0]
                    demand.of_others += total * scale * lost_to
                    demand.of_others_lost += total * scale * lost_to * lost / slowdown
                measured = r is Request.RUN_QUEUE and not self.estimated(i)
                if total * scale > 0 and measured:
                    demand.undivided = True
                for stage, beta in raw.items():
                    demand.beta[stage] += beta * scale
                    demand.beta_lost[stage] += beta * scale * lost / slowdown
            if r in self.lost:
                for (stage, of, _), demand in demands.items():
                    if of is r and not demand.undivided:
                        self.divide(stage, demand.beta, demand.of_others)
                        self.divide(stage, demand.beta_lost, demand.of_others_lost)
        return demands

    def lock_blame(self, i: int) -> dict[int, float]:
        """Blame on those who ran beside a task in its executor and are recorded as holders."""
        target, held = self.tasks[i], defaultdict[int, float](float)
        for row in self.lock_owners:
            j = row["owner"]
            source = self.tasks[j]
            if row["task"] != i or j in (i, -1) or not (target["ok"] and source["ok"]):
                continue
            both = min(target["finish_ms"], source["finish_ms"]) - max(
                target["launch_ms"], source["launch_ms"]
            )
            if target["executor"] == source["executor"] >= 0:
                held[source["stage"]] += max(min(known(row["wait_ms"]), both), 0.0)
        whole = max(sum(held.values()), self.waited(i, Request.MONITOR_BLOCKED))
        slowdown = self.target(i, Request.MONITOR_BLOCKED)[0]
        return {stage: slowdown * ms / whole for stage, ms in held.items() if ms > 0 and stage >= 0}

    def divide(self, target: int, parts: dict[int, float], of_others: float) -> None:
        """Give other queries their sum, and the target the rest, also where none of it was."""
        mine = [s for s in parts if s == target or self.owner(s) == self.owner(target)]
        theirs = [s for s in parts if s not in mine]
        own, others = sum(parts[s] for s in mine), sum(parts[s] for s in theirs)
        if others > 0:
            of_others = min(of_others, own + others)
            for s in mine:
                parts[s] *= (own + others - of_others) / own if own > 0 else 0.0
            parts[target] += others - of_others if own <= 0 else 0.0
            for s in theirs:
                parts[s] *= of_others / others

    def raw_blame(
        self, i: int, r: Request, used: list[list[float]], stretch: float, span: float
    ) -> dict[int, float]:
        if r is Request.MONITOR_BLOCKED:
            return self.lock_blame(i)
        target, raw = self.tasks[i], defaultdict[int, float](float)
        if not target["ok"] or span <= 0:
            return raw
        if r is Request.STORAGE_MEMORY:
            return self.by_cached(i, span)
        for j, source in enumerate(self.tasks):
            same = self.domain(i, r) == self.domain(j, r) >= 0
            if i == j or not same or not source["ok"] or source["stage"] < 0:
                continue
            if r is Request.SLOT_WAIT:
                beta = self.slot_integral(target, source, self.wait(i, r))[0] / span * stretch
            else:
                beta = sum(
                    self.emphasis(i, at, r) * max(min(end, until) - max(begin, since), 0.0) * rate
                    for at, (begin, end, _) in enumerate(self.pieces[i])
                    for rate, (since, until, _) in zip(used[j], self.pieces[j], strict=True)
                )
                beta *= stretch / span
            if beta > 0:
                raw[source["stage"]] += beta
        return raw

    @staticmethod
    def cached_bytes(rows: list[dict[str, Any]], at: float) -> float:
        return sum(one["bytes"] for one in rows if one["since_ms"] <= at < one["until_ms"])

    def by_cached(self, i: int, span: float) -> dict[int, float]:
        """At each moment of a wait for storage memory, all cached bytes there have their share."""
        raw, r = defaultdict[int, float](float), Request.STORAGE_MEMORY
        slowdown, executor = self.target(i, r)[0], self.tasks[i]["executor"]
        rows = [row for row in self.cached if row["executor"] == executor >= 0]
        edges = {row[name] for row in rows for name in ("since_ms", "until_ms")}
        most = max((self.cached_bytes(rows, edge) for edge in edges), default=0.0)
        for at, (begin, end, _) in enumerate(self.pieces[i]):
            cuts = sorted({begin, end, *(edge for edge in edges if begin < edge < end)})
            for since, until in itertools.pairwise(cuts):
                there = [one for one in rows if one["since_ms"] <= since < one["until_ms"]]
                total = max(self.cached_bytes(rows, since), most / 1000)
                for one in there:
                    if one["stage"] >= 0:
                        share = one["bytes"] / total * (until - since) / span
                        raw[one["stage"]] += slowdown * self.emphasis(i, at, r) * share
        return raw
