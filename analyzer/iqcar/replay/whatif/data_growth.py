"""Tells which stages get more tasks of more data, and how many, by what the log tells.

A stage that reads files and no shuffle has a task for each split: twice the data is twice the
splits. A stage that reads a shuffle has the number of partitions that is set, and larger ones;
where adaptive execution coalesced them, the number follows the data as its rule says.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from iqcar.base.units import read_size
from iqcar.replay.whatif.edit_cluster import slots_of_app
from iqcar.replay.whatif.scenario import Scenario
from iqcar.rules.vocabulary import version_of
from iqcar.tables import NONE, Tables, texts
from iqcar.tables.arrays import Floats, Ints, known_or_zero, sum_by

ADAPTIVE_SINCE = (3, 2)
"""Version from which adaptive execution is on unless it is turned off."""
PARTITIONS, ADVISORY, LEAST = 200, "64MB", "1MB"
"""Spark's defaults: shuffle partitions, and what a coalesced one should and must at least hold."""
LIKE_THE_RULE = 2.0
"""Factor by which a stage's tasks may differ from what the rule makes, to be of it: sizes that the
rule sees are rounded, and it never divides a partition."""


@dataclass(frozen=True)
class Coalescing:
    """How adaptive execution merges the partitions of a shuffle.

    initial: Partitions before.
    least_number: Partitions that are aimed at, for the sake of parallelism.
    advisory, least: Bytes.
    """

    initial: int
    least_number: int
    advisory: float
    least: float

    def target(self, total: float) -> float:
        """Return the bytes that a merged partition of a shuffle of so many should hold."""
        return max(min(total / self.least_number, self.advisory), self.least)

    def tasks(self, total: float) -> float:
        """Return how many partitions the shuffle is merged into."""
        return float(np.clip(total / self.target(total), 1, self.initial))


def coalescing_of(settings: dict[str, str], version: str, slots: int) -> Coalescing | None:
    """Return how an execution with these settings merges partitions; None if it does not."""
    adaptive = "spark.sql.adaptive."
    known = version_of(version)
    since = "true" if known is not None and known >= ADAPTIVE_SINCE else "false"
    merge = adaptive + "coalescePartitions."

    def yes(key: str, otherwise: str) -> bool:
        return settings.get(key, otherwise).strip().lower() == "true"

    def number(key: str, otherwise: int) -> int:
        try:
            return max(int(settings[key]), 1)
        except (KeyError, ValueError):
            return otherwise

    def size(key: str, otherwise: str) -> float:
        return read_size(settings.get(key, otherwise)) or read_size(otherwise) or 1.0

    if not (yes(adaptive + "enabled", since) and yes(merge + "enabled", "true")):
        return None
    initial = number("spark.sql.shuffle.partitions", PARTITIONS)
    parallel = number("spark.default.parallelism", max(slots, 2))
    aimed = parallel if yes(merge + "parallelismFirst", "true") else 1
    return Coalescing(
        initial=number(merge + "initialPartitionNum", initial),
        least_number=number(merge + "minPartitionNum", aimed),
        advisory=size(adaptive + "advisoryPartitionSizeInBytes", ADVISORY),
        least=size(merge + "minPartitionSize", LEAST),
    )


def tasks_of_data(scenario: Scenario, factor: Floats) -> Floats:
    """Return how many times as many tasks each step has with so many times the data.

    factor: (n_steps,).

    Returns ndarray of shape (n_steps,); 1 where the number stays.
    """
    tables = scenario.tables
    stage = scenario.stage_of_step
    n_stages = len(tables.stages)
    of_stage = tables.tasks["stage"].to_numpy(np.int64)
    known = of_stage >= 0

    def read(*columns: str) -> Floats:
        amount = sum(known_or_zero(tables.tasks[name].to_numpy(np.float64)) for name in columns)
        return sum_by(of_stage[known], np.asarray(amount)[known], n_stages)

    files, shuffle = read("input_bytes"), read("remote_bytes", "local_bytes")
    tasks = scenario.steps.first_late - scenario.steps.first_task[:-1]
    grown = np.ones(len(factor))
    for step in np.flatnonzero((factor != 1) & (stage >= 0) & (tasks > 0)).tolist():
        row = int(stage[step])
        if files[row] > 0 and shuffle[row] <= 0:
            grown[step] = factor[step]
        elif shuffle[row] > 0:
            grown[step] = _merged(scenario, row, int(tasks[step]), shuffle[row], factor[step])
    return grown


def _merged(scenario: Scenario, stage: int, tasks: int, total: float, factor: float) -> float:
    """Return the factor of the tasks of a stage that reads a shuffle of so many bytes."""
    tables = scenario.tables
    job = int(tables.stages["job"].iloc[stage])
    execution = int(tables.jobs["sql_execution"].iloc[job]) if job >= 0 else NONE
    if execution < 0:
        return 1.0
    app = int(tables.stages["app"].iloc[stage])
    version = texts(tables.applications, "spark_version")[app]
    at = [workload.app for workload in scenario.workloads].index(app)
    slots = slots_of_app(scenario.slots, at)
    rule = coalescing_of(_settings(tables, app, execution), version, slots)
    if rule is None or tasks >= rule.initial:
        return 1.0
    made = rule.tasks(total)
    if abs(math.log(tasks / made)) > math.log(LIKE_THE_RULE):
        return 1.0  # So many were asked for: repartition(10).
    return rule.tasks(factor * total) / made


def _settings(tables: Tables, app: int, execution: int) -> dict[str, str]:
    """Return the settings of an execution: the application's, and what its session changed."""
    conf = tables.conf
    found: dict[str, str] = {}
    for of in (NONE, execution):
        mine = conf[((conf["app"] == app) & (conf["sql_execution"] == of)).to_numpy(bool)]
        found |= dict(zip(texts(mine, "key"), texts(mine, "value"), strict=True))
    return found


def whole_tasks(tasks: Ints, grown: Floats) -> Ints:
    """Return the numbers of tasks that there are then: whole, and none vanishes."""
    found: Ints = np.maximum(np.rint(tasks * grown), np.minimum(tasks, 1)).astype(np.int64)
    return found
