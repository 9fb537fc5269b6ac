"""Computes how much each category and its parts changed, whether runs show it, and ranks changes.

Four measures are tested: time, CPU time, bytes and their skew. Runs of equal queries vary least in
the last two, so a change of work counts where the time that it stands for changed, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from iqcar.comparison.comparison_tables import CHANGES, EFFECTS
from iqcar.comparison.match import SideMeans, side_means
from iqcar.comparison.shrunken_t import Prior, Verdicts, judge
from iqcar.enums import VERDICTS, ChangeKind, ChangeVerdict
from iqcar.model.waits.stage_parts import PART_NAMES
from iqcar.tables import NONE, texts
from iqcar.tables.arrays import Flags, Floats, Ints, known_or_zero, share_of

LEAST_EFFECT_MS = 50.0
"""Change of a mean below which nothing is reported: a planned collection of garbage takes more."""


class TestedMeasure(NamedTuple):
    """One measure that is tested over all categories."""

    name: str
    """As evidence names it."""
    columns: tuple[str, ...]
    """Columns of ``CATEGORY_RUNS``, whose sum is tested."""
    margin: float
    """Relative change that is none."""
    one_run: Prior
    """Variance of log values where no category has several runs."""


TIME = TestedMeasure("time", ("time_ms",), 0.05, Prior(0.15**2, 4.0))

TESTED = (
    TIME,
    TestedMeasure("cpu", ("cpu_ms", "python_cpu_ms"), 0.03, Prior(0.05**2, 4.0)),
    TestedMeasure("bytes", ("bytes", "spill_bytes"), 0.02, Prior(0.03**2, 4.0)),
    TestedMeasure("skew", ("bytes_max_over_mean",), 0.1, Prior(0.05**2, 4.0)),
)
"""Margins below which simulated quiet pairs raise no alarm; spreads of equal runs there."""

FEW_RUNS = 5
"""Runs a side below which a longer wait that nobody's work explains is chance."""
NOT_WORK = ("slots_ms", "executors_ms", "tail_ms")
"""Parts of a stage's time in which its tasks did not work."""


def effects(
    runs: pd.DataFrame, categories: pd.DataFrame, *, margin: float, alpha: float
) -> pd.DataFrame:
    """Test all categories and divide their changes.

    Returns ``EFFECTS``, a row per category. ``margin``: relative change of time that is none.
    ``alpha``: level of the tests.
    """
    sides = (side_means(runs, categories, 0), side_means(runs, categories, 1))
    before, after = (side.measure["time_ms"] for side in sides)
    both = (sides[0].runs > 0) & (sides[1].runs > 0)
    instances = (sides[0].instances + sides[1].instances) / np.where(both, 2, 1)
    kind = pd.factorize(categories["kind"])[0].astype(np.int64)
    tested = [_judge(runs, measure, kind, margin, alpha) for measure in TESTED]
    root = categories["query_category"].to_numpy(np.int64)
    passed = _passed(tested, sides, margin, _computing(sides, root))
    time = tested[0]
    change = instances * (after - before)
    # The scale that makes a difference of logarithms one of times, whichever side comes first.
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = np.where(after == before, before, (after - before) / np.log(after / before))
    verdict = _verdicts(time, np.logical_or.reduce(passed), both)
    return EFFECTS.frame(
        {
            "category": np.arange(len(categories)),
            "runs_before": sides[0].runs,
            "runs_after": sides[1].runs,
            "instances": instances,
            "before_ms": before,
            "after_ms": after,
            "contribution_ms": change,
            "low_ms": change + instances * scale * (time.low - time.difference),
            "high_ms": change + instances * scale * (time.high - time.difference),
            "log_low": time.low,
            "log_high": time.high,
            "verdict": verdict,
            "evidence": [
                ", ".join(f.name for f, yes in zip(TESTED, row, strict=True) if yes)
                for row in np.column_stack(passed).tolist()
            ],
            "q_value": _least_q(tested, passed),
            "runs_needed": np.where(verdict == str(ChangeVerdict.CANNOT_TELL), time.runs_needed, 0),
            **_data_and_rate(sides, instances),
            **{
                f"{name.removesuffix('_ms')}_change_ms": instances
                * (sides[1].measure[name] - sides[0].measure[name])
                for name in PART_NAMES
            },
        }
    )


def _verdicts(time: Verdicts, changed: Flags, both: Flags) -> NDArray[np.object_]:
    verdict = np.array([str(VERDICTS[code]) for code in time.verdict], object)
    # What is surely different, but by less than matters, is the same.
    verdict[(verdict == str(ChangeVerdict.CHANGED)) & ~changed] = str(ChangeVerdict.SAME)
    verdict[changed] = str(ChangeVerdict.CHANGED)
    verdict[~both | (np.isnan(time.p) & ~changed)] = ""
    return verdict


def no_verdict(effect: pd.DataFrame, by_chance: Sequence[int]) -> pd.DataFrame:
    """Return effects in which some categories' runs cannot tell."""
    if not by_chance:
        return effect
    verdict = effect["verdict"].to_numpy(object).copy()
    needed = effect["runs_needed"].to_numpy(np.int64).copy()
    verdict[list(by_chance)], needed[list(by_chance)] = str(ChangeVerdict.CANNOT_TELL), FEW_RUNS
    return effect.assign(verdict=verdict, runs_needed=needed)


def _judge(
    runs: pd.DataFrame, measure: TestedMeasure, kind: Ints, margin: float, alpha: float
) -> Verdicts:
    return judge(
        runs["category"].to_numpy(np.int64),
        runs["side"].to_numpy(np.int64),
        runs[list(measure.columns)].sum(axis=1, skipna=False).to_numpy(np.float64),
        n=len(kind),
        margin=margin if measure is TIME else measure.margin,
        alpha=alpha,
        one_run=measure.one_run,
        widen=measure is not TIME,
        group=kind,
    )


def _computing(sides: tuple[SideMeans, SideMeans], root: Ints) -> Floats:
    """Return the change of time that each category's change of CPU time stands for.

    Besides what it changed on the chain that held the query up, the part of a stage beside the
    chain: it takes the slots and processors that the chain then waits for, at the query's mean
    number of processors.
    """
    cpu0, cpu1 = (side.measure["cpu_ms"] + side.measure["python_cpu_ms"] for side in sides)
    compute0, compute1 = (side.measure["compute_ms"] for side in sides)
    per_cpu = share_of(compute0 + compute1, cpu0 + cpu1)[root]
    on_chain = share_of(compute0 + compute1, (cpu0 + cpu1) * per_cpu)
    change = compute1 - compute0 + np.maximum(1 - on_chain, 0.0) * (cpu1 - cpu0) * per_cpu
    stages = np.flatnonzero(root != np.arange(len(root)))
    of_query = np.bincount(root[stages], known_or_zero(change[stages]), minlength=len(root))
    return np.where(root == np.arange(len(root)), of_query, change)


def _passed(
    tested: list[Verdicts], sides: tuple[SideMeans, SideMeans], margin: float, compute: Floats
) -> list[Flags]:
    """Tell which tests say that a category changed by as much as matters."""
    before, after = (side.measure["time_ms"] for side in sides)
    work = after - before
    for name in NOT_WORK:
        work = work - (sides[1].measure[name] - sides[0].measure[name])
    least = np.maximum(margin * np.minimum(before, after), LEAST_EFFECT_MS)
    stands_for = (after - before, compute, work, after - before)
    with np.errstate(invalid="ignore"):
        return [
            (test.verdict == VERDICTS.index(ChangeVerdict.CHANGED))
            & (np.abs(change) >= least)
            & (np.sign(change) == np.sign(test.difference))
            for test, change in zip(tested, stands_for, strict=True)
        ]


def _least_q(tested: list[Verdicts], passed: list[Flags]) -> Floats:
    q = np.array([np.where(yes, test.q, np.inf) for test, yes in zip(tested, passed, strict=True)])
    least: Floats = q.min(axis=0)
    return np.where(np.isinf(least), tested[0].q, least)


def _data_and_rate(sides: tuple[SideMeans, SideMeans], instances: Floats) -> dict[str, Floats]:
    """Divide the change of time = bytes × rate: Δbytes · mean rate + mean bytes · Δrate."""
    times, data = ([side.measure[name] for side in sides] for name in ("time_ms", "bytes"))
    known = (data[0] > 0) & (data[1] > 0)
    rate = [share_of(time, read) for time, read in zip(times, data, strict=True)]
    by_data = np.where(known, instances * (data[1] - data[0]) * (rate[0] + rate[1]) / 2, np.nan)
    by_rate = np.where(known, instances * (rate[1] - rate[0]) * (data[0] + data[1]) / 2, np.nan)
    return {"data_ms": by_data, "rate_ms": by_rate}


def rank_changes(
    categories: pd.DataFrame,
    effect: pd.DataFrame,
    new_graphs: Mapping[int, object] | None = None,
) -> pd.DataFrame:
    """List what changed: queries by contribution, each followed by its stages.

    ``new_graphs``: query categories whose stage graph changed. Returns ``CHANGES``: a query is
    listed if it or a stage of it changed, if its stage graph did, or if it ran on one side only.
    `kind` is empty where :mod:`iqcar.comparison.causes` has to tell it.
    """
    found = _found(categories, effect, new_graphs or {})
    rows: list[tuple[int, int, str, int]] = []
    for rank, (_, category, kind, stages) in enumerate(sorted(found), 1):
        query = len(rows)
        rows.append((rank, category, kind, NONE))
        rows += [(rank, stage, "", query) for stage in stages]
    columns = list(zip(*rows, strict=True)) or [()] * 4
    at = np.array(columns[1], np.int64)
    of_effect = ("before_ms", "after_ms", "contribution_ms", "low_ms", "high_ms", "runs_before")
    names = [*of_effect, "runs_after", "q_value", "evidence"]
    contribution = np.abs(effect["contribution_ms"].to_numpy(np.float64))
    everything = float(contribution[categories["kind"].to_numpy() == "query"].sum())
    return CHANGES.frame(
        {
            **dict(zip(("rank", "category", "kind", "parent"), columns, strict=True)),
            **{name: effect[name].to_numpy()[at] for name in names},
            "share": share_of(contribution[at], np.full(len(at), everything)),
        }
    )


def _found(
    categories: pd.DataFrame, effect: pd.DataFrame, new_graphs: Mapping[int, object]
) -> list[tuple[float, int, str, list[int]]]:
    """Queries that changed: negative size, category, kind and stages, the largest first."""
    kind, verdict = texts(categories, "kind"), texts(effect, "verdict")
    query_of = categories["query_category"].tolist()
    contribution: list[float] = effect["contribution_ms"].tolist()
    stages: dict[int, list[int]] = {}
    for category, worth in enumerate(_worth(effect, query_of, verdict, new_graphs)):
        if kind[category] != "query" and worth:
            stages.setdefault(query_of[category], []).append(category)
    changed = str(ChangeVerdict.CHANGED)
    found = []
    for category in np.flatnonzero(np.array(kind, object) == "query").tolist():
        inside = sorted(stages.get(category, ()), key=lambda stage: -abs(contribution[stage]))
        what = ""
        if verdict[category] == "":
            only_after = effect["runs_before"].iloc[category] == 0
            what, inside = str(ChangeKind.ADDED if only_after else ChangeKind.REMOVED), []
        elif category in new_graphs:
            what = str(ChangeKind.STRUCTURE)
        elif verdict[category] != changed and not any(
            verdict[stage] == changed for stage in inside
        ):
            continue
        found.append((-abs(contribution[category]), category, what, inside))
    return found


def _worth(
    effect: pd.DataFrame, query_of: list[int], verdict: list[str], new_graphs: Mapping[int, object]
) -> list[bool]:
    """Tell which stages are listed: those that changed, or came or went with the stage graph."""
    before, after = (effect[name].to_numpy(np.float64) for name in ("before_ms", "after_ms"))
    large = np.abs(effect["contribution_ms"].to_numpy(np.float64)) >= LEAST_EFFECT_MS
    one_side = (large & ((before == 0) | (after == 0))).tolist()
    changed = str(ChangeVerdict.CHANGED)
    return [
        said == changed or (alone and query in new_graphs and verdict[query] != "")
        for said, alone, query in zip(verdict, one_side, query_of, strict=True)
    ]
