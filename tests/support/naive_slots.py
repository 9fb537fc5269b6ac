"""Slots and cores straight from their definitions, one moment at a time."""

from __future__ import annotations

import itertools
import math
from typing import Any


def life_of(executor: dict[str, Any]) -> tuple[float, float]:
    """From when to when an executor was there."""
    added, removed = executor["added_ms"], executor["removed_ms"]
    since = -math.inf if math.isnan(added) else added
    return since, math.inf if math.isnan(removed) else max(removed, since)


class NaiveSlots:
    """Who held how many slots of an application when, as `causes.blame.task_intervals` tells."""

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
