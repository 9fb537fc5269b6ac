"""Estimated delays against the truth that a simulated scheduler knows."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from iqcar.causes.wasted.wasted_work import find_wasted_work
from tests.causes.wasted.test_wasted_work import QUERY, stage, tables_of


@dataclass
class Ran:
    """One attempt as it ran."""

    index: int
    attempt: int
    start: float
    end: float
    executor: int
    succeeded: bool
    resubmitted: bool = False


@dataclass
class Stage:
    """Tasks of known durations on executors with slots, in the order of Spark's task sets.

    Attributes
    ----------
    durations : ndarray of shape (n_tasks,), ms
    executors, slots : int
        Executors, and slots of each.
    fails : dict of int to list of float
        After which shares of its duration each attempt of a task fails, before one succeeds.
    dies_ms : float, optional
        When executor 0 dies; another takes its place, and what it wrote is lost.
    gone_ms : float
        After which time another takes its place, if it was the only one; else it does at once.
    """

    durations: NDArray[np.float64]
    executors: int
    slots: int
    fails: dict[int, list[float]] = field(default_factory=dict)
    dies_ms: float | None = None
    gone_ms: float = 0.0

    def run(self) -> tuple[list[Ran], float]:
        """Return the attempts, and when the last one of use ended."""
        waiting = list(range(len(self.durations)))
        tries = dict.fromkeys(waiting, 0)
        free = [executor for executor in range(self.executors) for _ in range(self.slots)]
        running: list[tuple[float, int, Ran]] = []
        ran: list[Ran] = []
        now, dies = 0.0, self.dies_ms
        while waiting or running:
            while free and waiting:
                index, executor = waiting.pop(0), free.pop(0)
                failures, attempt = self.fails.get(index, []), tries[index]
                good = attempt >= len(failures)
                lasts = self.durations[index] * (1.0 if good else failures[attempt])
                one = Ran(index, attempt, now, now + lasts, executor, good)
                tries[index] += 1
                heapq.heappush(running, (one.end, one.index, one))
            if dies is not None and running[0][0] > dies:
                now, dies = dies, None
                lost = [one for _, _, one in running if one.executor == 0]
                running = [entry for entry in running if entry[2].executor != 0]
                heapq.heapify(running)
                for one in lost:
                    one.end, one.succeeded = now, False
                again = [one for one in ran if one.executor == 0 and one.succeeded]
                for one in again:
                    one.resubmitted = True
                now += self.gone_ms if self.executors == 1 else 0.0
                ran += lost
                waiting[:0] = [one.index for one in (*lost, *again)]
                free += [self.executors] * len(lost)
                free = [self.executors if executor == 0 else executor for executor in free]
                continue
            end, _, one = heapq.heappop(running)
            now = end
            free.append(one.executor)
            ran.append(one)
            if not one.succeeded:
                waiting.insert(0, one.index)
        return ran, now

    def unhurt(self) -> float:
        """When it would have ended without failures."""
        return Stage(self.durations, self.executors, self.slots).run()[1]


def random_stage(rng: np.random.Generator, dies: bool) -> Stage:
    """A stage of up to 60 tasks on up to 12 slots whose tasks fail, or whose executor dies."""
    n = int(rng.integers(1, 60))
    stage = Stage(rng.lognormal(7, 0.6, n), int(rng.integers(1, 5)), int(rng.integers(1, 4)))
    if dies:
        stage.dies_ms = float(rng.uniform(0.1, 0.9)) * stage.unhurt()
        stage.gone_ms = float(rng.uniform(0, 5000))
    else:
        hit = rng.choice(n, rng.integers(1, min(4, n) + 1), replace=False)
        stage.fails = {int(i): rng.uniform(0.1, 1, rng.integers(1, 4)).tolist() for i in hit}
    return stage


def attempts_of(ran: list[Ran]) -> list[dict[str, Any]]:
    """The attempts as rows of tables."""
    return [
        {
            "index": one.index,
            "attempt": one.attempt,
            "launch_ms": one.start,
            "finish_ms": one.end,
            "executor": one.executor,
            "status": "success" if one.succeeded else "failed",
            "why": ("Resubmitted", "")
            if one.resubmitted
            else ("ExecutorLostFailure", "")
            if one.executor == 0 and not one.succeeded
            else None
            if one.succeeded
            else ("ExceptionFailure", ""),
        }
        for one in ran
    ]


STAGES = 120
MOST_ERROR = {False: 0.02, True: 0.03}
"""Mean absolute error as a share of what the stage took; published in docs/wasted-work.md."""


@pytest.mark.long
@pytest.mark.parametrize("dies", [False, True])
def test_estimated_delays_are_near_the_true_ones(dies: bool) -> None:
    rng = np.random.default_rng(7)
    true, said, took = np.zeros((3, STAGES))
    for number in range(STAGES):
        made = random_stage(rng, dies)
        ran, took[number] = made.run()
        true[number] = took[number] - made.unhurt()
        tables = tables_of(
            attempts_of(ran),
            [stage(0, took[number])],
            executors=[{"executor_id": str(n)} for n in range(made.executors + 1)],
            queries=[{**QUERY, "end_ms": took[number], "duration_ms": took[number]}],
        )
        said[number] = find_wasted_work(tables).by_query["elapsed_ms"].sum()
    slope = float((true * said).sum() / (true**2).sum())
    error = float(np.mean(np.abs(said - true) / took))
    assert 0.9 <= slope <= 1.1
    assert error <= MOST_ERROR[dies]
