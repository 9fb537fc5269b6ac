"""Predicts reading times by the causal model of "More intervention now!" (eq. 1, 2).

M. Goldszmidt, R. Isaacs: *More intervention now!*, HotOS 2011. Our own model: docs/what-if.md.

- Eq. 1: a Bayesian network, P(X₁ … Xₙ) = Π P(Xᵢ | Pa(Xᵢ)): :class:`BayesianNetwork`. Each
  relation is linear with Gaussian noise, which "will be sufficient to a first approximation".
- Eq. 2: rt = s · r + s · c · A + ε: the law of `reading_time` in :data:`LAWS`.
- Intervention (§2, after Pearl) sets a variable and cuts the arrows into it:
  :meth:`BayesianNetwork.do`.

Where the print leaves a choice:

- Figure 1 is a part of the model "for the running time of a task"; its arrows are those that §1
  says: disk and contention, network and congestion, CPU and data size.
- r "is expressed per byte" and multiplied by s: it is time per byte, though called "rate data_in".
  Taken: a task's waits for reads and fetches per byte. c likewise: its processor time and its waits
  for a processor per byte.
- c stands for "the number and speed of the CPUs": twice the processors halve it; a
  single thread computes no faster, though.
- "Reading time" of a task that computes while it reads, as Spark's do, is its run time less that of
  writing. A is then the share of its computing that it does meanwhile.
- One model per vertex: per stage, whose tasks are the replicas.
- σ is called a variance.
- The model ends at a task's reading time: what slots, shares and other queries do is not in it.

Paper: Intervention | eq. 2, interventions in eq. 1 | exact |
  tests/lab/printed/test_intervention_printed.py
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from iqcar.enums import Request
from iqcar.errors import UsageError
from iqcar.model.waits.columns import wait_column
from iqcar.replay.whatif.question import Question
from iqcar.replay.whatif.question_parts import option_of
from iqcar.tables import Tables, texts
from iqcar.tables.arrays import Floats, Ints, positive_or_zero
from iqcar_lab.printed.bigroots import tasks_with_features

Values = Mapping[str, Floats]
"""A value of each variable for each task: (n_tasks,)."""
WITHIN_80 = 1.2816
"""Standard deviations that 80 % of a Gaussian lie within."""


class Law(NamedTuple):
    """How a variable follows from its parents: known + Σ coefficient · term + ε."""

    parents: tuple[str, ...]
    terms: Callable[[Values], list[Floats]]
    known: Callable[[Values], Floats | float] = lambda _: 0.0
    """The part without a parameter."""


def constant(_: Values) -> list[Floats]:
    """Return the one term of a variable without parents: its mean is the coefficient."""
    return [np.ones(1)]


def follows(congestion: str) -> Law:
    """Return the law of a time per byte: linear in its device's congestion."""
    return Law((congestion,), lambda of: [np.ones(1), of[congestion]])


ROOT = Law((), constant)
LAWS: dict[str, Law] = {
    "disk_congestion": ROOT,
    "network_congestion": ROOT,
    "disk_time": follows("disk_congestion"),
    "network_time": follows("network_congestion"),
    "rate_data_in": Law(
        ("disk_time", "network_time"), lambda _: [], lambda of: of["disk_time"] + of["network_time"]
    ),
    "data_size": ROOT,
    "cpu": ROOT,
    "reading_time": Law(
        ("data_size", "rate_data_in", "cpu"),
        lambda of: [of["data_size"] * of["cpu"]],
        lambda of: of["data_size"] * of["rate_data_in"],
    ),
}
"""Figure 1, parents first; `reading_time` is eq. 2. Times in ms, those of devices per byte."""


@dataclass(frozen=True)
class BayesianNetwork:
    """A network of linear Gaussian relations."""

    laws: Mapping[str, Law]
    coefficients: Mapping[str, Floats]
    variance: Mapping[str, float]

    @classmethod
    def fit(cls, values: Values, laws: Mapping[str, Law] = LAWS) -> BayesianNetwork:
        """Fit each relation by itself, by least squares (§3); those with unknown values are left
        out, and a variable whose parents are unknown has none.
        """
        laws = {
            name: law if all(parent in values for parent in law.parents) else ROOT
            for name, law in laws.items()
            if name in values
        }
        coefficients: dict[str, Floats] = {}
        variance: dict[str, float] = {}
        for name, law in laws.items():
            rest, terms = values[name] - law.known(values), _matrix(law, values, len(values[name]))
            coefficients[name] = np.asarray(np.linalg.lstsq(terms, rest)[0], np.float64)
            variance[name] = float(np.mean((rest - terms @ coefficients[name]) ** 2))
        return cls(laws, coefficients, variance)

    def mean(self, name: str, values: Values) -> Floats:
        """Return the mean of a variable given its parents."""
        law, some = self.laws[name], next(iter(values.values()))
        mean: Floats = law.known(values) + (
            _matrix(law, values, len(some)) @ self.coefficients[name]
        )
        return mean

    def do(self, values: Values, changes: Values) -> dict[str, Floats]:
        """Set variables and return what is then expected; what they do not cause stays as it is."""
        after, moved = {**values, **changes}, set(changes)
        for name, law in self.laws.items():
            if name not in changes and moved & set(law.parents):
                after[name] = self.mean(name, after)
                moved.add(name)
        return after


def _matrix(law: Law, values: Values, n: int) -> Floats:
    terms = [np.broadcast_to(term, n) for term in law.terms(values)]
    return np.stack(terms, axis=1) if terms else np.zeros((n, 0))


def variables_of(tables: Tables, waits: pd.DataFrame) -> tuple[Ints, dict[str, Floats]]:
    """Return the rows of the tasks that read, and a value of each variable for each."""
    tasks = tables.tasks

    def number(name: str) -> Floats:
        return positive_or_zero(tasks[name].to_numpy(np.float64))

    def waited(request: Request) -> Floats:
        return positive_or_zero(waits[wait_column(request)].to_numpy(np.float64))

    size = number("input_bytes") + number("remote_bytes") + number("local_bytes")
    took = number("run_ms") - number("shuffle_write_ms")
    succeeded = np.array(texts(tasks, "status"), object) == "success"
    row = np.flatnonzero(succeeded & (size > 0) & (took > 0) & (tasks["stage"] >= 0))
    size = size[row]
    disk, network = waited(Request.IO_READ)[row] / size, waited(Request.SHUFFLE_FETCH)[row] / size
    values = {
        "disk_time": disk,
        "network_time": network,
        "rate_data_in": disk + network,
        "data_size": size,
        "cpu": (number("cpu_ms") + waited(Request.RUN_QUEUE))[row] / size,
        "reading_time": took[row],
    }
    sampled, featured = tasks_with_features(tables)
    for name, feature in (("disk_congestion", "disk"), ("network_congestion", "network")):
        known = np.full(len(tasks), np.nan)
        known[sampled] = [task.features.get(feature, np.nan) for task in featured]
        if np.isfinite(known[row]).all():
            values[name] = known[row]
    sane = np.isfinite(np.stack([*values.values(), size * values["cpu"]])).all(axis=0)
    return row[sane], {name: column[sane] for name, column in values.items()}


CHANGES = {"disk": "disk_time", "network": "network_time", "cpu": "cpu"}
"""Options of a question and the time per byte that a larger capacity divides."""


def printed_what_if(tables: Tables, waits: pd.DataFrame, question: Question) -> pd.DataFrame:
    """Predict reading times after an intervention, by query.

    `tasks` that read; their times summed: `recorded_ms`, `model_ms` with nothing changed,
    `predicted_ms` with the change, and the ends of its range (80 %).

    Raises UsageError if the question asks for what is no variable of the model.
    """
    asked = question.to_dict()
    for name in asked:
        if name not in (*CHANGES, "scale"):
            can = ", ".join(map(option_of, (*CHANGES, "scale")))
            raise UsageError("is no variable of the printed model", option_of(name), f"use {can}")
    row, values = variables_of(tables, waits)
    query, stage = (tables.tasks[name].to_numpy(np.int64)[row] for name in ("query", "stage"))
    changes = {CHANGES[n]: values[CHANGES[n]] / asked[n] for n in CHANGES if n in asked}
    if question.scale:
        changes["data_size"] = values["data_size"] * _factors(tables, question.scale)[query]
    model, after, spread = (np.zeros(len(row)) for _ in range(3))
    for one in np.unique(stage):
        mine = np.flatnonzero(stage == one)
        seen = {name: column[mine] for name, column in values.items()}
        network = BayesianNetwork.fit(seen)
        model[mine] = network.mean("reading_time", seen)
        done = network.do(seen, {name: column[mine] for name, column in changes.items()})
        after[mine] = network.mean("reading_time", done)
        spread[mine] = network.variance["reading_time"]
    whose, at = np.unique(query[query >= 0], return_inverse=True)

    def total(column: Floats) -> Floats:
        sums: Floats = np.bincount(at, column[query >= 0], len(whose)).astype(np.float64)
        return sums

    either = WITHIN_80 * np.sqrt(total(spread))
    predicted = total(after)
    return pd.DataFrame(
        {
            "query": whose,
            "tasks": np.bincount(at, minlength=len(whose)),
            "recorded_ms": total(values["reading_time"]),
            "model_ms": total(model),
            "predicted_ms": predicted,
            "low_ms": np.maximum(predicted - either, 0.0),
            "high_ms": predicted + either,
        }
    )


def _factors(tables: Tables, scale: Mapping[str, float]) -> Floats:
    """Return the factor of each query's data; the last is of tasks without one."""
    names = [texts(tables.queries, name) for name in ("query_id", "name", "fingerprint")]
    factors = np.ones(len(tables.queries) + 1)
    for wanted, factor in scale.items():
        rows = [row for row, of in enumerate(zip(*names, strict=True)) if wanted in of]
        if not rows:
            raise UsageError(f"no query is called {wanted!r}", "--scale", "see iqcar queries")
        factors[rows] = factor
    return factors
