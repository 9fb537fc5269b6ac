"""Finds the most probable own rates and capacities by replays of the recorded launches.

Every task starts when and where it did; a replay tells for each how long it takes in its devices,
and for how much of that time a device gave it less than it could take. The parameters are the own
rate of each stage in each phase and the capacity of each kind of device. Errors are those of log
times. Gauss–Newton steps go to the maximum of the posterior: the own rate of a stage moves a time
by the part in which its tasks were not short, a capacity by the rest. What is likely before the
data stands in :mod:`iqcar.replay.loop.rate_prior`.

How tasks alternate between devices, and how these are shared, is chosen by the same criterion.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from iqcar.model.demand.device import HOST_TASKS
from iqcar.model.demand.estimate import Demand
from iqcar.model.demand.host_samples import Sampled
from iqcar.replay.loop.device_sharing import DEVICE
from iqcar.replay.loop.open_loop import (
    LEAST_MS,
    Launches,
    open_loop,
)
from iqcar.replay.loop.rate_point import RatePoint, Rates
from iqcar.replay.loop.rate_prior import REQUESTS_OF, RatePrior
from iqcar.replay.loop.task_demands import (
    COMPUTE,
    FASTER,
    MEASURED,
    PROCESSOR,
    REQUEST,
    WAIT,
    TaskDemands,
    Way,
)
from iqcar.tables.arrays import Floats, Ints, share_of, sum_by

LEAST_NOISE = 0.02
"""Standard deviation of log times below which a replay is never trusted."""
MOST_OFF = 0.7
"""Error of a log time that counts as at most this."""
ROUNDS, SOME = 14, 7
"""Steps at most from one start, and from one that is only tried."""
LITTLE = 0.05
"""Gain of a step, in log-posterior, below which it is the last."""
SHORTER, LONGER, SHORTEST = 0.3, 2.0, 0.02
"""Factors of the next step's length after one downhill and one uphill, and the least length."""
MOST_RATE, MOST_CAPACITY = 0.5, 0.15
"""Longest steps, in log."""
ALIKE_TASKS = 32.0
"""Tasks of one stage share causes: n of them count as n / (1 + n / this)."""
PROPORTIONAL = 0.5
"""Part of a time in a device that is short that own rates decide, where it slows all by one factor:
the rates of all together decide nothing."""


class RateFit:
    """Uses of devices by some tasks: one per task and phase that tells something.

    demands: of these tasks only.
    stage: (n_tasks,).
    """

    def __init__(
        self,
        demands: TaskDemands,
        launches: Launches,
        stage: Ints,
        demand: Demand,
    ) -> None:
        self.demands, self.launches = demands, launches
        self._moved = demands.alone * demands.use
        self._capacity = demands.capacity.copy()
        self._slower: dict[int, Floats] = {}
        self.fixed: set[int] = set()
        self._doubt: dict[int, float] = {}
        self._replays: dict[tuple[object, ...], tuple[Floats, Floats]] = {}
        used = [self._uses_of(phase, stage, demand) for phase in REQUESTS_OF]
        self.task = np.concatenate(used)
        self.phase = np.repeat(list(REQUESTS_OF), [len(rows) for rows in used])
        self.device = DEVICE[self.phase]
        self.keys, self.key = np.unique(
            stage[self.task] * len(DEVICE) + self.phase, return_inverse=True
        )
        self.key_device = DEVICE[self.keys % len(DEVICE)]
        self.host = launches.host[self.task]
        self.prior = RatePrior.of(self.keys, demand.known, self._slower)
        size = np.bincount(self.key)[self.key]
        self.alike = 1.0 / (1.0 + size / ALIKE_TASKS)
        slower = self._of_host({})
        self._spent = demands.spent[self.task, self.phase]
        self._data = self._moved[self.task, self.phase]
        self._log_speed = np.log(self._data / self._spent / slower) if len(slower) else slower
        self._typical = np.array(
            [np.median(self._log_speed[self.key == key]) for key in range(len(self.keys))]
        )
        hosts = np.unique(launches.host)
        self.first_capacity = {
            device: float(np.log(self._capacity[hosts, device] / of_host[hosts]).mean())
            for device, of_host in self._slower.items()
        } | {device: mean for device, (mean, _) in self.prior.capacity.items()}
        for device in self._slower.keys() - self.fixed:
            sampled = demands.sampled.get(device, Sampled())
            first = np.exp(self.first_capacity[device])
            first = np.fmax(first, sampled.highest)
            if sampled.capacity > 0:
                first = sampled.capacity
                self.prior.capacity.pop(device, None)
            self.first_capacity[device] = float(np.log(first))

    def _uses_of(self, phase: int, stage: Ints, demand: Demand) -> Ints:
        """Rows of the tasks whose time in a phase tells something; takes in their device."""
        device, found = int(DEVICE[phase]), demand.devices.get(REQUESTS_OF[phase])
        pair = [one for one, of in REQUEST.items() if DEVICE[one] == device] or [phase]
        known = [demand.devices.get(REQUESTS_OF[one]) for one in pair]
        devices = [one for one in known if one is not None]
        if not devices or found is None or REQUESTS_OF[phase] not in demand.rates:
            return np.zeros(0, np.int64)
        best = max(devices, key=lambda one: one.contended)
        used = (self.demands.spent[:, phase] >= LEAST_MS) & (self._moved[:, phase] > 0)
        if phase == COMPUTE:
            # A wait that was measured is known: only what nothing else explains has an own rate.
            used &= self.demands.estimated
        if device not in self._slower:
            self._slower[device] = np.exp(best.slower)
            if (self.demands.evidence[:, device] == MEASURED).all():
                self.fixed.add(device)
            else:
                self._capacity[:, device] = np.exp(best.log_capacity + best.slower)
            sampled = self.demands.sampled.get(device, Sampled())
            chance = min(max(best.contended, 1e-3), 0.5)
            if sampled.contended > chance or sampled.contended < 0.5:
                chance = (
                    sampled.contended if sampled.contended > 0.5 else min(chance, sampled.contended)
                )
            self._doubt[device] = float(np.log((1.0 - chance) / chance))
        return np.flatnonzero(used)

    def _of_host(self, slower: dict[int, Floats]) -> Floats:
        """Speed of the host of each use, relative to the others."""
        speed = np.ones(len(self.task))
        for device, of_host in (self._slower | slower).items():
            mine = self.device == device
            speed[mine] = of_host[self.host[mine]]
        return speed

    def laid_out(self, point: RatePoint) -> TaskDemands:
        """Return the demands with these own rates, capacities and speeds of hosts."""
        log_rate, log_capacity, slower, _ = point
        alone, use = self.demands.alone.copy(), self.demands.use.copy()
        most = self._most(point)
        rate = np.exp(np.minimum(log_rate, most))[self.key]
        rate = rate * self._of_host(slower)
        task, phase = self.task, self.phase
        alone[task, phase] = self._data / rate
        # What is faster than a device that was short did not come from it.
        beside = np.isinf(most) & np.isin(self.key_device, list(log_capacity))
        use[task, phase] = np.where(beside[self.key], 0.0, rate)
        computes = phase == COMPUTE
        if computes.any():
            # What a task does beside computing does not wait for a processor, but Python does.
            rows, cpu = task[computes], self._data[computes]
            busy = np.where(self.demands.python[rows], cpu / rate[computes], cpu)
            alone[rows, WAIT] = self.demands.alone[rows, WAIT] + cpu / rate[computes] - busy
            alone[rows, COMPUTE], use[rows, COMPUTE] = busy, 1.0
        capacity = self._capacity.copy()
        capacity[:, list(self._slower.keys() - log_capacity.keys())] = np.inf
        for device, value in log_capacity.items():
            if device not in self.fixed:
                capacity[:, device] = np.exp(value) * slower.get(device, self._slower[device])
        return replace(self.demands, alone=alone, use=use, capacity=capacity)

    def _replayed(self, point: RatePoint, way: Way) -> tuple[Floats, Floats, Floats]:
        """Return errors of log times, and their parts that own rates and capacities decide."""
        tried = replace(self.laid_out(point), way=way)
        spent, short = self._in_devices(tried)
        took = np.maximum(spent, 0.1)
        computes = self.phase == COMPUTE
        idle = np.where(computes, (tried.alone - self.demands.alone)[self.task, WAIT], 0.0)
        whole = took + idle
        error = np.clip(np.log(whole / self._spent), -MOST_OFF, MOST_OFF)
        by_capacity = np.clip(share_of(short, whole), 0.0, 1.0)
        by_rate = 1.0 - (PROPORTIONAL if way.proportional else 1.0) * by_capacity
        busy = tried.alone[self.task, self.phase]
        by_rate = np.where(computes, np.minimum(share_of(idle + busy, whole), 1.0), by_rate)
        return error, by_rate, by_capacity

    def _in_devices(self, tried: TaskDemands) -> tuple[Floats, Floats]:
        """Replay; return the time of each use, and how short it was. Nothing is replayed twice.

        Where nobody was short, how devices slow does not matter.
        """
        given = tried.alone, tried.use, tried.capacity
        key = hash(tuple(array.tobytes() for array in given))
        enough = key, tried.way._replace(proportional=False), "enough"
        for known in ((key, tried.way), enough):
            if known in self._replays:
                return self._replays[known]
        run = open_loop(tried, self.launches)
        found = run.spent[self.task, self.phase], run.short[self.task, self.phase]
        self._replays[key, tried.way] = found
        if not run.short.any():
            self._replays[enough] = found
        return found

    def lowest(self) -> Floats:
        """Return own rates with which no task had to wait for another."""
        return np.array(
            [np.quantile(self._log_speed[self.key == key], 0.75) for key in range(len(self.keys))]
        )

    def _most(self, point: RatePoint) -> Floats:
        """Log of the highest own rate of each key: that of its device, or of a core.

        Infinite where there is no limit: what was faster than a device did not come from it.
        """
        devices = self.key_device.tolist()
        most = np.array([point.log_capacity.get(device, np.inf) for device in devices])
        faster = np.array([point.faster.get(device, np.inf) for device in devices])
        free = self._typical > np.minimum(most + np.log(FASTER), faster)
        most = np.where(free, np.inf, most)
        return np.where(self.key_device == PROCESSOR, np.minimum(most, 0.0), most)

    def climb(self, way: Way, start: RatePoint, steps: int = ROUNDS) -> Rates:
        """Go uphill from a start; a step that leads downhill is tried again, shorter."""
        best, scale = self._at(start, way), 1.0
        for _ in range(steps):
            found = self._at(self._uphill(best, scale), way)
            if found.worth <= best.worth:
                scale *= SHORTER
                if scale < SHORTEST:
                    break
                continue
            gained = found.worth - best.worth
            best, scale = found, min(LONGER * scale, 1.0)
            if gained < LITTLE:
                break
        return best

    def _at(self, point: RatePoint, way: Way) -> Rates:
        """Replay with some parameters."""
        log_rate = np.minimum(point.log_rate, self._most(point))
        point = point._replace(log_rate=log_rate)
        error, by_rate, by_capacity = self._replayed(point, way)
        noise = self._noise(error)
        weight = self.alike * noise**-2
        told = sum_by(self.key, weight * by_rate**2, len(self.keys))
        off = log_rate - self.prior.means(told, log_rate, point.log_capacity)
        penalty, unlike = self.prior.penalty(off, point.log_capacity)
        worth = -float((self.alike * np.log(noise)).sum())
        worth -= 0.5 * float((weight * error**2).sum())
        worth -= penalty
        worth -= 0.5 * float(np.log1p(told * self.prior.variance).sum())
        limited = np.isfinite(self._most(point))
        return Rates(
            at=point, worth=worth, told=told, off=off, unlike=unlike, error=error,
            by_rate=by_rate, by_capacity=by_capacity, noise=noise, limited=limited,
        )  # fmt: skip

    def _uphill(self, found: Rates, scale: float) -> RatePoint:
        """Return the point that a part of a Gauss–Newton step leads to."""
        (log_rate, log_capacity, slower, faster), error = found.at, found.error
        weight, n = self.alike * found.noise**-2, len(self.keys)
        pull = self.prior.pull(found.off)
        curve = found.told + pull
        slope = sum_by(self.key, weight * found.by_rate * error, n) - found.off * pull
        capacity = dict(log_capacity)
        for device in capacity.keys() - self.fixed:
            mine = self.device == device
            part, of = found.by_capacity[mine], weight[mine]
            mixed = sum_by(self.key[mine], of * found.by_rate[mine] * part, n)
            now = capacity[device]
            mean, firm = self.prior.of_capacity(device, self.first_capacity[device], now)
            bend = float((of * part**2).sum()) + firm
            down = float((of * part * error[mine]).sum()) + (mean - now) * firm
            move = (down - (mixed * slope / curve).sum()) / (bend - (mixed**2 / curve).sum())
            move = float(np.clip(scale * move, -MOST_CAPACITY, MOST_CAPACITY))
            capacity[device] += move
            slope = slope - mixed * move
        nearer = {kind: self._nearer(kind, of, scale * error) for kind, of in slower.items()}
        moved = np.clip(scale * slope / curve, -MOST_RATE, MOST_RATE)
        return RatePoint(log_rate + moved, capacity, nearer, faster)

    def _noise(self, error: Floats) -> Floats:
        """Return the standard deviation of the errors in the device of each use."""
        squares = sum_by(self.device, self.alike * error**2, PROCESSOR + 1)
        uses = sum_by(self.device, self.alike, PROCESSOR + 1)
        noise: Floats = np.maximum(np.sqrt(share_of(squares, uses)), LEAST_NOISE)[self.device]
        return noise

    def _nearer(self, device: int, of_host: Floats, error: Floats) -> Floats:
        """Move the speeds of hosts that are not like the others to where replays are not off."""
        mine = self.device == device
        tasks = np.bincount(self.host[mine], minlength=len(of_host)).astype(np.float64)
        late = share_of(sum_by(self.host[mine], error[mine], len(of_host)), tasks + HOST_TASKS)
        return np.where(self._slower[device] != 1.0, of_host * np.exp(late), of_host)
