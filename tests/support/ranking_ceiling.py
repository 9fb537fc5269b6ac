"""How well culprits of loud clusters can be ranked at all: what luck moves, and an oracle.

Every query of every loud twin is a target, so that most culprits are alike and which of them costs
a little more is luck. The same queries are simulated once more with other sizes of tasks: how well
one truth predicts the other is what a ranking is worth from one day to the next. The oracle knows
who moved how much in which device at every moment, and the speed that each task would have had
alone; it attributes as the analyzer does, so that what it misses is due to attribution itself:
without a culprit, the others meet at other times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations

import numpy as np

from iqcar.causes.blame.demand_weights import stage_losses
from iqcar.enums import Request
from tests.support.cluster_simulator import Simulation
from tests.support.quiet_clusters import LOUD
from tests.support.simulated_truth import GUILTY, Case, gains_of_removals, ours, score
from tests.support.simulated_work import StagePlan

OTHER_LUCK = 50_000
"""Distance of the seeds of one run and of the same run with other sizes of tasks."""


@dataclass(frozen=True, eq=False)
class Target:
    """One query of a loud twin: its case, its gains with other luck, and what the oracle says."""

    case: Case
    other_luck: dict[int, float]
    oracle: dict[int, float]


@cache
def targets_of(family: str, seed: int) -> tuple[Target, ...]:
    """All queries of one loud twin."""
    cluster, plans = LOUD[family](np.random.default_rng([seed, 7, len(family), True]))
    run, other = (Simulation(cluster, plans, s) for s in (seed, seed + OTHER_LUCK))
    emitted, every = run.emit(), oracle(run)
    found = []
    for q, (gains, otherwise) in enumerate(zip(*map(gains_of_removals, (run, other)), strict=True)):
        duration = run.ended[q] - plans[q].submit
        elsewhere = {source: gain * duration for source, gain in otherwise.items()}
        found.append(Target(Case(family, *emitted, q, gains), elsewhere, dict(enumerate(every[q]))))
    return tuple(found)


USES = {
    Request.IO_READ: ("disk", "read"),
    Request.IO_WRITE: ("disk", "write"),
    Request.SHUFFLE_FETCH: ("network", "fetch"),
    Request.RUN_QUEUE: ("cores", "cpu"),
}
"""The capacity of the cluster and the work of a stage that each request is about."""


def oracle(run: Simulation) -> np.ndarray:
    """Elapsed ms that each query lost to each: ndarray of shape (n_queries, n_queries).

    A phase lost what it took longer than alone, to all that shared its device meanwhile, in
    proportion to what they moved; slots are not short on these clusters.
    """
    cluster, n = run.cluster, len(run.plans)
    phases: dict[tuple[int, str], list[tuple[float, ...]]] = {}
    keys = sorted(run.stage_end)
    for number, task in enumerate(run.tasks):
        plan: StagePlan = run.plans[task.query].stages[task.stage]
        for begin, end, request, *_ in task.history:
            if request is Request.IO_READ and plan.cached:
                continue
            device, amount = USES[request]
            work = getattr(plan, amount) * task.scale / cluster.rounds
            speed = 1.0
            if request is not Request.RUN_QUEUE:
                speed = min(getattr(plan, f"{amount}_rate"), getattr(cluster, device))
                speed *= cluster.slow_host if task.host == cluster.hosts - 1 else 1.0
            stage = keys.index((task.query, task.stage))
            row = (begin, end, work, max(end - begin - work / speed, 0.0), number, stage)
            phases.setdefault((task.host, device), []).append((*row, task.query))
    lost = np.zeros((len(keys), n))
    for rows in phases.values():
        begin, end, work, over, number, stage, query = np.array(rows).T
        length = np.maximum(end - begin, 1e-9)
        overlap = np.minimum(end[:, None], end) - np.maximum(begin[:, None], begin)
        moved = np.maximum(overlap, 0.0) * (work / length) * (number[:, None] != number)
        total = moved.sum(axis=1, keepdims=True)
        share = np.divide(moved, total, out=np.zeros_like(moved), where=total > 0)
        by_query = (share * over[:, None]) @ (query[:, None] == np.arange(n))
        np.add.at(lost, stage.astype(int), by_query)
    tables, waits = run.emit()
    losses = stage_losses(tables, waits, lost.sum(axis=1))
    weight = losses["lost_ms"].to_numpy() / np.maximum(losses["lost_task_ms"].to_numpy(), 1e-9)
    owner = np.array([q for q, _ in keys])
    found: np.ndarray = (owner == np.arange(n)[:, None]) @ (lost * weight[:, None])
    return found


@dataclass(frozen=True)
class Ranking:
    """Plain scores, and those of what differs by more than luck moves.

    ``clear_tau`` is the part of pairs of sources in right order less that in wrong order, of all
    pairs whose true gains differ by more than that; ``clear_top`` the share of right top culprits
    where the first is ahead of the second by more.
    """

    tau: float
    top: float
    false_blame: float
    clear_tau: float
    clear_pairs: int
    clear_top: float
    clear_tops: int


def luck_of(targets: Iterable[Target]) -> float:
    """Root mean square by which other luck moves the difference of two sources' gains."""
    moved = []
    for target in targets:
        gains = target.case.gains
        if max(gains.values()) >= GUILTY:
            other = _shares(target.case, target.other_luck)
            moved += [
                (gains[a] - gains[b] - other[a] + other[b]) ** 2 for a, b in combinations(gains, 2)
            ]
    return float(np.sqrt(np.mean(moved)))


def ranking(
    targets: Sequence[Target], predict: Callable[[Target], dict[int, float]], luck: float
) -> Ranking:
    """Score predictions of the time that each target lost to each other query."""
    guesses = {id(target.case): predict(target) for target in targets}
    plain = score([target.case for target in targets], lambda case: guesses[id(case)])
    order, tops = [], []
    for target in targets:
        gains, said = target.case.gains, guesses[id(target.case)]
        if max(gains.values()) < GUILTY:
            continue
        for a, b in combinations(gains, 2):
            if abs(gains[a] - gains[b]) > luck:
                order.append(np.sign(gains[a] - gains[b]) * np.sign(said[a] - said[b]))
        first, *rest = sorted(gains, key=lambda source: -gains[source])
        if not rest or gains[first] - gains[rest[0]] > luck:
            tops.append(first == max(gains, key=lambda source: said[source]))
    return Ranking(
        plain.tau, plain.top, plain.false_blame, float(np.mean(order or [np.nan])), len(order),
        float(np.mean(tops or [np.nan])), len(tops),
    )  # fmt: skip


def _shares(case: Case, lost: dict[int, float]) -> dict[int, float]:
    duration = case.tables.queries["duration_ms"].to_numpy()[case.target]
    return {source: value / duration for source, value in lost.items()}


RANKED: dict[str, Callable[[Target], dict[int, float]]] = {
    "said": lambda target: ours(target.case),
    "other luck": lambda target: target.other_luck,
    "oracle": lambda target: target.oracle,
}
