"""Searches for the best fit of own rates and capacities: from several starts, of several ways.

Contention in a device takes evidence, more where the loads of tasks or samples of the host say that
it is unlikely.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np

from iqcar.replay.loop.rate_fit import ALIKE_TASKS, SOME, RateFit
from iqcar.replay.loop.rate_point import RatePoint, Rates
from iqcar.replay.loop.task_demands import DISK, NETWORK, PROCESSOR, WAYS, Way
from iqcar.tables.arrays import Flags, Floats, Ints, most_at_once, share_of, sum_by

TRIES = 4
"""Times that it is asked which stages are slower than the devices make them."""
FAR_OFF = 2.0
"""Standard errors by which a stage must be slower than replayed to have an own rate below."""
AMPLE = 0.2
"""How far above its first estimate a capacity is tried first, in log."""
GAPS, GAP = 3, 0.2
"""Stages above so many gaps between the log speeds of stages, at least of this size, may be so fast
because they come from the page cache."""
CACHED = float(np.log(9.0))
"""Log-odds against that, before the data."""
TRIED_CORES = np.geomspace(0.8, 2.0, 8)
NEAREST_CORES = np.array([0.9, 1.0, 1.1])
"""Numbers of cores of a host that are tried, by the first and by the last estimate."""
CLEARLY = 2.0
"""Log-posterior that another way must gain."""
SURELY, UNLIKELY = 4.0, {DISK: 15.0, NETWORK: 15.0, PROCESSOR: 5.0}
"""Log-posterior that contention in a device must gain, and how often its log-odds against are
added, if the loads of tasks say that it is unlikely: noise can look like it, less so where the time
that tasks computed is recorded."""
OPEN = 2.0
"""Log-posterior that contention in a device gains, but less than that, if it cannot be told."""
OUTER = 0.1
"""Probability on each side of the middle 80 %."""
STEPS = np.linspace(-4.0, 4.0, 81)
"""Where the probability of a rate is computed, in standard deviations."""


class RateSearch(RateFit):
    """A fit that knows where to start, and what to compare."""

    def best_of(self, way: Way, first: dict[int, float], faster: dict[int, float]) -> Rates:
        """Climb from below, and from above while stages turn out to be slower by themselves.

        first: log capacity that is tried first, of the devices in which tasks may have been short.
        faster: as in :class:`RatePoint`.
        """
        low = RatePoint(self.lowest(), first, self._slower, faster)
        found = [self.climb(way, low)]
        if not first:
            return found[0]
        # Tasks that start when they did pile up where a capacity is too low by little.
        point = low._replace(log_capacity={kind: at + AMPLE for kind, at in first.items()})
        most = self._most(point)
        above = np.where(np.isfinite(most), most, low.log_rate)
        point = point._replace(log_rate=self.prior.instead_of(above))
        n = np.bincount(self.key)
        slow = np.zeros(len(n), bool)
        for _ in range(TRIES):
            one = self.climb(way, point, SOME)
            found.append(one)
            slower = self._slower_by_themselves(one, n) & ~slow
            if not slower.any():
                break
            slow |= slower
            point = one.at._replace(log_rate=np.where(slower, low.log_rate, one.at.log_rate))
        start = max(found[1:], key=lambda one: one.worth)
        found.append(self.climb(way, start.at))
        return max(found, key=lambda one: one.worth)

    def _slower_by_themselves(self, found: Rates, n: Ints) -> Flags:
        """Mark keys that replays make faster than they were, although a device limits them."""
        tasks = n.astype(np.float64)
        late = share_of(sum_by(self.key, found.error, len(n)), tasks)
        short = share_of(sum_by(self.key, found.by_capacity, len(n)), tasks)
        noise = np.zeros(len(n))
        noise[self.key] = found.noise
        sure = noise / np.sqrt(tasks / (1.0 + tasks / ALIKE_TASKS))
        marked: Flags = (late < -FAR_OFF * sure) & (short > 0.5)
        return marked

    def _without(self, device: int, way: Way, found: Rates) -> Rates:
        """Climb without contention in a device, from where another fit ended."""
        return self.climb(way, self._less(found.at, {device}), SOME)

    def best(self, ways: Iterable[Way] = WAYS) -> tuple[Rates, Way, RatePoint | None]:
        """Find the way, and the devices that were short: contention takes evidence.

        The last is where devices are short, too, of which that is open; None if there is none.
        """
        chosen, *others = ways
        first = self.first_capacity
        point = RatePoint(self.lowest(), first, self._slower, {})
        whole = self._of_whole_cores(chosen, point, TRIED_CORES)
        whole = sorted(whole, key=lambda one: one.worth)[-1:]

        def best_in(way: Way, faster: dict[int, float]) -> Rates:
            found = [self.best_of(way, self.first_capacity, faster)]
            found += [self.climb(way, one.at._replace(faster=faster)) for one in whole]
            return max(found, key=lambda one: one.worth)

        best = best_in(chosen, {})
        for speed in self._gaps():
            kept = self.first_capacity
            self.first_capacity = first | {DISK: self._moved_at_once(speed)}
            found = best_in(chosen, {DISK: speed})
            gain = CLEARLY if best.at.faster else SURELY + UNLIKELY[DISK] * CACHED
            if found.worth > best.worth + gain:
                best = found
            else:
                self.first_capacity = kept
        faster = best.at.faster
        for way in others:
            found = best_in(way, faster)
            if found.worth > best.worth + CLEARLY:
                best, chosen = found, way
        most, dropped, open_ = best.at, set(), False
        for device in sorted(self._slower):
            less = self._without(device, chosen, best)
            doubt = max(self._doubt[device] - (less.unlike - best.unlike), 0.0)
            if best.worth < less.worth + SURELY + UNLIKELY[device] * doubt:
                told = best.worth < less.worth + OPEN
                best = less
                dropped |= {device} if told else set()
                open_ |= not told
        if best.at.log_capacity:
            best = self.climb(chosen, best.at)
            whole = self._of_whole_cores(chosen, best.at, NEAREST_CORES)
            best = max([best, *whole], key=lambda one: one.worth)
        return best, chosen, self._less(most, dropped) if open_ else None

    def _of_whole_cores(self, way: Way, point: RatePoint, tried: Floats) -> list[Rates]:
        """Climb with whole numbers of cores, which most hosts have."""
        if PROCESSOR not in point.log_capacity.keys() - self.fixed:
            return []
        cores = np.unique(np.round(np.exp(point.log_capacity[PROCESSOR]) * tried).clip(min=1.0))
        rates = np.where(self.key_device == PROCESSOR, self.lowest(), point.log_rate)
        self.fixed.add(PROCESSOR)
        kept, found = self._capacity, []
        for log in np.log(cores).tolist():
            self._capacity = kept.copy()
            self._capacity[:, PROCESSOR] = np.exp(log) * self._slower[PROCESSOR]
            given = point.log_capacity | {PROCESSOR: log}
            start = point._replace(log_rate=rates, log_capacity=given)
            found.append(self.climb(way, start, SOME))
        self.fixed.remove(PROCESSOR)
        self._capacity = kept
        return found

    def _less(self, point: RatePoint, devices: Collection[int]) -> RatePoint:
        """Return a point at which some devices are not short."""
        off = np.isin(self.key_device, list(devices))
        left = {one: value for one, value in point.log_capacity.items() if one not in devices}
        rates = np.where(off, self.lowest(), point.log_rate)
        return point._replace(log_rate=rates, log_capacity=left)

    def _gaps(self) -> list[float]:
        """Log speeds in the largest gaps between those of stages that used the disk."""
        speeds = np.sort(self._typical[self.key_device == DISK])
        gap = np.diff(speeds)
        largest = np.argsort(-gap, kind="stable")[:GAPS]
        return [float(speeds[at] + gap[at] / 2) for at in largest if gap[at] > GAP]

    def _moved_at_once(self, faster: float) -> float:
        """Log of the most that stages which are not faster than this moved on a disk at once."""
        used = (self.device == DISK) & (self._typical[self.key] <= faster)
        task, host = self.task[used], self.host[used]
        start, lasted = self.launches.launch[task], self.demands.spent[task].sum(axis=1)
        speed = self._data[used] / lasted / self._slower[DISK][host]
        most = most_at_once(host, start, start + lasted, speed, self.launches.n_hosts)
        return float(np.log(np.median(most[most > 0])))

    def rates_of(self, other: RateSearch, rates: Floats) -> Floats:
        """Take own rates from a fit on other tasks; known or the lowest where that has none."""
        place = np.minimum(np.searchsorted(other.keys, self.keys), len(other.keys) - 1)
        there = other.keys[place] == self.keys
        return np.where(there, rates[place], self.prior.instead_of(self.lowest()))

    def bounds(self, found: Rates) -> tuple[Floats, Floats]:
        """Return the bounds of the middle 80 % of the log own rate of each key.

        A rate that the data do not tell may be anywhere from the speeds that were seen to the
        capacity.
        """
        at = found.at.log_rate
        off = (found.told + 1.0 / self.prior.variance) ** -0.5
        rate = at[:, None] + off[:, None] * STEPS
        lowest, most = np.minimum(self.lowest(), at), self._most(found.at)
        chance = np.exp(-0.5 * STEPS**2) * (rate >= lowest[:, None]) * (rate <= most[:, None])
        below = chance.cumsum(axis=1) / chance.sum(axis=1, keepdims=True)
        rows = np.arange(len(rate))
        low, high = (rate[rows, (below < part).sum(axis=1)] for part in (OUTER, 1.0 - OUTER))
        return np.minimum(low, at), np.maximum(high, at)
