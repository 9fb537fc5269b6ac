"""The event loop with shared devices in plain Python, from its definition: slow and plain.

Between two moments nothing changes: every task that uses a device moves on at its speed. At each
moment all speeds are found anew by water-filling. Slots are offered to sorted task sets, as Spark
does; a task goes to its own host if a slot is free there. It knows nothing of how the fast loop is
built.
"""

from __future__ import annotations

import functools
import heapq
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from iqcar.replay.loop.loop_input import Devices, Shares, Slots, Steps, Work

ADD, RELEASE, READY, DONE = 0, 5, 6, 7
"""What happens first at one moment."""
DEVICE_OF = {0: 0, 1: 1, 2: 2, 4: 0}
"""Disk, network, processors of the phases read, fetch, compute, write; phase 3 shares nothing."""


def capacity_beside(capacity: float, slowing: float, users: int) -> float:
    """What is left of a capacity for all together: each further user costs a part of it.

    A seek after every request of another task: the time that each task needs grows with the others.
    """
    return capacity / (1.0 + slowing * (users - 1))


def speeds(want: list[float], capacity: float, proportional: bool) -> list[float]:
    """Part of what each wants that it gets: the least first, the rest divided among the others."""
    if sum(want) <= capacity:
        return [1.0] * len(want)
    if proportional:
        return [capacity / sum(want)] * len(want)
    got = [0.0] * len(want)
    left = capacity
    order = sorted(range(len(want)), key=want.__getitem__)
    for served, k in enumerate(order):
        got[k] = min(want[k], left / (len(want) - served))
        left -= got[k]
    return [1.0 if w == 0 else g / w for g, w in zip(got, want, strict=True)]


@dataclass
class Running:
    """A task at work: what is left of each phase, in ms alone."""

    task: int
    phases: list[tuple[int, float]]


@dataclass
class NaiveRun:
    """What happened."""

    steps: Steps
    work: Work
    slots: Slots
    shares: Shares
    devices: Devices
    now: float = 0.0
    events: list[tuple[float, int, int]] = field(default_factory=list)
    running: list[Running] = field(default_factory=list)

    def __post_init__(self) -> None:
        n, m, apps = len(self.steps.delay), len(self.work.step), len(self.shares.fair)
        self.released, self.done = np.full(n, np.nan), np.full(n, np.nan)
        self.launched, self.ended = np.full(m, np.nan), np.full(m, np.nan)
        self.spent, self.host = np.zeros((m, 5)), np.full(m, -1)
        self.short = np.zeros((m, 5))
        self.lacked_memory = np.zeros(len(self.devices.memory))
        self.holding: dict[int, float] = {}
        self.in_line: list[int] = []
        self.missing, self.counted = self.steps.missing.tolist(), self.steps.counted.tolist()
        self.pending: dict[int, list[int]] = {}
        self.at_work = [0] * n
        self.number: dict[int, int] = {}
        self.free = [[0] * self.slots.hosts for _ in range(apps)]
        self.there = [0] * apps
        self.with_free: list[list[int]] = [[] for _ in range(apps)]
        for k, when in enumerate(self.slots.when):
            heapq.heappush(self.events, (when, ADD, k))
        for s in range(n):
            if not self.missing[s]:
                heapq.heappush(self.events, (self.steps.delay[s], RELEASE, s))
        while np.isnan(self.done).any():
            self._move()

    def _speeds(self) -> list[float]:
        found = [1.0] * len(self.running)
        users: dict[tuple[int, int], list[int]] = {}
        for k, one in enumerate(self.running):
            device = DEVICE_OF.get(one.phases[0][0])
            if device is not None:
                host = int(self.devices.world[one.task] + self.host[one.task])
                users.setdefault((host, device), []).append(k)
        for (host, device), ks in users.items():
            want = [
                self.devices.use[self.running[k].task, self.running[k].phases[0][0]] for k in ks
            ]
            p = 3 * host + device
            capacity = capacity_beside(self.devices.capacity[p], self.devices.slowing[p], len(want))
            for k, speed in zip(ks, speeds(want, capacity, self.devices.proportional), strict=True):
                found[k] = speed
        return found

    def _move(self) -> None:
        """Go to the next moment, and let happen what happens there."""
        speed = self._speeds()
        ends = [one.phases[0][1] / s for one, s in zip(self.running, speed, strict=True)]
        first = int(np.argmin(ends)) if ends else -1
        timed = self.events[0][0] - self.now if self.events else np.inf
        step = min(ends[first] if ends else np.inf, timed)
        assert np.isfinite(step), "nothing happens any more"
        for one, s in zip(self.running, speed, strict=True):
            phase, left = one.phases[0]
            self.spent[one.task, phase] += step
            self.short[one.task, phase] += step if s < 1.0 else 0.0
            one.phases[0] = (phase, left - step * s)
        self.now += step
        if ends and ends[first] <= timed:
            one = self.running[first]
            one.phases.pop(0)
            if not one.phases:
                self.running.pop(first)
                self._end(one.task)
            return
        self.now, kind, number = heapq.heappop(self.events)
        if kind == ADD:
            app, host = int(self.slots.app[number]), int(self.slots.host[number])
            self.there[app] += int(self.slots.change[number])
            self._free(app, host, int(self.slots.change[number]))
            self._offer(app)
        elif kind == RELEASE:
            self._release(number)
        elif kind == READY:
            begin, end = self.steps.first_task[number : number + 2]
            self.pending[number] = list(range(begin, end))
            self._offer(self._app(number))
        else:
            self.done[number] = self.now
            begin, end = self.steps.follower_start[number : number + 2]
            for s in self.steps.follower[begin:end]:
                self.missing[s] -= 1
                if not self.missing[s]:
                    heapq.heappush(self.events, (self.now + self.steps.delay[s], RELEASE, int(s)))

    def _release(self, s: int) -> None:
        self.released[s] = self.now
        self.number.setdefault(int(self.steps.job[s]), len(self.number))
        if not self.counted[s]:
            heapq.heappush(self.events, (self.now + self.steps.tail[s], DONE, s))
        if self.steps.first_task[s + 1] > self.steps.first_task[s]:
            heapq.heappush(self.events, (self.now + self.steps.ready[s], READY, s))

    def _end(self, task: int) -> None:
        self.ended[task] = self.now
        s = int(self.work.step[task])
        self.counted[s] -= 1
        if not self.counted[s]:
            heapq.heappush(self.events, (self.now + self.steps.tail[s], DONE, s))
        self.at_work[s] -= 1
        self.holding.pop(task, None)
        for other in list(self.in_line):
            self._start(other)
        self._free(self._app(s), int(self.host[task]), 1)
        self._offer(self._app(s))

    def _app(self, s: int) -> int:
        return int(self.shares.pool_app[self.shares.pool[s]])

    def _free(self, app: int, host: int, change: int) -> None:
        """Hosts with free slots stand in a list; the last one takes the place of a full one."""
        self.free[app][host] += change
        hosts = self.with_free[app]
        if self.free[app][host] and host not in hosts:
            hosts.append(host)
        elif not self.free[app][host] and host in hosts:
            last = hosts.pop()
            if last != host:
                hosts[hosts.index(host)] = last

    def _offer(self, app: int) -> None:
        busy, by_pool, by_cap = self.at_work.copy(), Counter(), Counter()
        for s, running in enumerate(busy):
            by_pool[self.shares.pool[s]] += running
            by_cap[self.shares.cap_of[s]] += running
        sets = [s for s, tasks in self.pending.items() if tasks and self._app(s) == app]
        before = functools.partial(self._compare, busy=busy, by_pool=by_pool)
        in_order = sorted(sets, key=functools.cmp_to_key(before))
        for s in in_order:
            cap = self.shares.cap_of[s]
            while self.pending[s] and self.with_free[app]:
                if cap >= 0 and by_cap[cap] >= self._limit(cap, app):
                    break
                by_cap[cap] += 1
                self._launch(self.pending[s].pop(0), s, app)
        for s in in_order:
            cap = self.shares.cap_of[s]
            if cap >= 0 and not self.shares.cap_strict[cap]:
                while self.pending[s] and self.with_free[app]:
                    self._launch(self.pending[s].pop(0), s, app)

    def _limit(self, cap: int, app: int) -> int:
        """Most tasks under a cap: a number, and a share of the slots, one task at least."""
        of_share = int(
            Fraction(self.shares.cap_share[cap]).limit_denominator(100) * self.there[app]
        )
        return min(int(self.shares.cap[cap]), max(of_share, 1))

    def _launch(self, task: int, s: int, app: int) -> None:
        host, hosts = int(self.work.host[task]), self.with_free[app]
        if host not in hosts:
            host = hosts[(task * 7919 + self.slots.seed * 104729) % len(hosts)]
        self._free(app, host, -1)
        self.at_work[s] += 1
        self.launched[task], self.host[task] = self.now, host
        self.in_line.append(task)
        self._start(task)

    def _start(self, task: int) -> None:
        """Let a task begin if it gets memory: 1/2N of it, or all that it wants."""
        if len(self.devices.memory) and self.devices.memory[task]:
            wanted, pool = self.devices.memory[task], self._memory_pool(task)
            beside = [t for t in self.holding if self._memory_pool(t) == pool]
            asking = [t for t in self.in_line if self._memory_pool(t) == pool]
            total = self.devices.memory_capacity[pool]
            left = total - sum(self.holding[t] for t in beside)
            part = total / len([*beside, *[t for t in asking if self.devices.memory[t]]])
            if left < min(wanted, part / 2) * (1 - 1e-9):
                return
            self.holding[task] = min(wanted, part, left)
            self.lacked_memory[task] = self.now - self.launched[task]
        self.in_line.remove(task)
        rounds = self.devices.rounds
        once = [(k, ms / rounds) for k, ms in enumerate(self.devices.alone[task]) if ms]
        self.running.append(Running(task, once * rounds))

    def _memory_pool(self, task: int) -> int:
        return self._app(int(self.work.step[task])) * self.slots.hosts + int(self.host[task])

    def _compare(self, a: int, b: int, busy: list[int], by_pool: Counter) -> int:
        p, q, shares = self.shares.pool[a], self.shares.pool[b], self.shares
        if p == q or not shares.fair[shares.pool_app[p]]:
            if shares.fair[shares.pool_app[p]] and shares.pool_fair[p]:
                return _sign((busy[a], shares.by_name[a]), (busy[b], shares.by_name[b]))
            return _sign(self._fifo(a), self._fifo(b))
        return _sign(
            *(
                (
                    *_fair(by_pool[x], shares.pool_min_share[x], shares.pool_weight[x]),
                    shares.pool_by_name[x],
                )
                for x in (p, q)
            )
        )

    def _fifo(self, s: int) -> tuple[int, int]:
        job = int(self.steps.job[s])
        return self.number[job], 0 if job == s else int(self.shares.by_stage[s])


def _fair(running: int, least: float, weight: float) -> tuple[bool, float]:
    needy = running < least
    return not needy, running / max(least, 1.0) if needy else running / weight


def _sign(a: tuple, b: tuple) -> int:
    return int(a > b) - int(a < b)


def random_input(seed: int, *, scarce: float = 1.0) -> tuple[Steps, Work, Slots, Shares, Devices]:
    """A few applications with steps that follow each other, on up to three hosts."""
    rng = np.random.default_rng(seed)
    apps, hosts, n = int(rng.integers(1, 3)), int(rng.integers(1, 4)), int(rng.integers(2, 9))
    app = np.sort(rng.integers(apps, size=n))
    app[:apps] = np.arange(apps)
    app = np.sort(app)
    edges = [(a, b) for b in range(n) for a in range(b) if app[a] == app[b] and rng.random() < 0.3]
    job = np.arange(n)
    for a, b in edges:
        job[b] = job[a] if job[b] == b else job[b]
    tasks = rng.integers(0, 7, n)
    step = np.repeat(np.arange(n), tasks)
    m = len(step)
    first = np.append(0, np.cumsum(tasks))
    start = np.searchsorted([a for a, _ in sorted(edges)], np.arange(n + 1))
    steps = Steps(
        np.bincount(np.array([b for _, b in edges], np.int64), minlength=n),
        rng.uniform(0, 50, n), rng.uniform(0, 5, n), rng.uniform(0, 5, n), tasks.astype(np.int64),
        first, first[1:], start, np.array([b for _, b in sorted(edges)], np.int64), job,
        np.arange(n, dtype=np.float64),
    )  # fmt: skip
    work = Work(
        step, np.zeros(m), np.ones(m, bool), np.full(m, -1), np.zeros(m, bool), np.zeros(m),
        rng.integers(-1, hosts, m),
    )  # fmt: skip
    places = rng.integers(1, 4, (apps, hosts))
    slots = Slots(
        rng.uniform(0, 20, places.size), places.ravel(), np.zeros(places.size, bool),
        np.repeat(np.arange(apps), hosts), np.tile(np.arange(hosts), apps), np.zeros(apps), hosts,
        int(rng.integers(3)),
    )  # fmt: skip
    sizes = rng.integers(1, 4, apps)
    pools, first_pool = int(sizes.sum()), np.append(0, np.cumsum(sizes))
    caps = int(rng.integers(0, 3))
    cap_app = rng.integers(apps, size=caps)
    cap_of = np.full(n, -1)
    for cap, owner in enumerate(cap_app):
        cap_of[(app == owner) & (rng.random(n) < 0.5)] = cap
    shares = Shares(
        rng.random(apps) < 0.7, np.repeat(np.arange(apps), sizes), first_pool,
        first_pool[app] + rng.integers(0, 1 << 20, n) % sizes[app], np.arange(n),
        rng.permutation(n), rng.random(pools) < 0.5, rng.integers(1, 4, pools).astype(np.float64),
        rng.integers(0, 3, pools).astype(np.float64), np.arange(pools), cap_of,
        rng.integers(1, 4, caps), rng.choice([0.29, 0.5, 0.9, 1.0], caps),
        rng.random(caps) < 0.5,
    )  # fmt: skip
    alone = rng.uniform(1, 100, (m, 5)) * (rng.random((m, 5)) < 0.6)
    alone[alone.sum(axis=1) == 0, 2] = 10.0
    seats = np.append(0, np.cumsum(np.repeat(places.sum(axis=0) + 1, 3)))
    devices = Devices(
        alone, rng.uniform(0.2, 2.0, (m, 5)), rng.uniform(0.5, 4.0, 3 * hosts) * scarce, seats,
        int(rng.integers(1, 4)), bool(rng.random() < 0.4),
        rng.uniform(0.0, 0.3, 3 * hosts) * (rng.random() < 0.5), np.zeros(m, np.int64),
    )  # fmt: skip
    if rng.random() < 0.5:
        wanted = rng.uniform(1, 10, m) * (rng.random(m) < 0.7)
        devices = devices._replace(
            memory=wanted, memory_capacity=rng.uniform(3, 20, apps * hosts) * scarce
        )
    return steps, work, slots, shares, devices
