"""Measured curves set the own rates of stages, and nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd
import pytest

from iqcar.causes.blame.attribute import attribute
from iqcar.errors import UsageError
from iqcar.replay.loop.task_demands import ASSUMED, COMPUTE, DISK, READ, TaskDemands, task_demands
from iqcar.replay.whatif.curves import Curve, read_curves, set_own_rates
from iqcar.replay.whatif.model import build_model
from iqcar.replay.whatif.question import Question
from iqcar.replay.whatif.what_if import answer
from iqcar.tables import Tables
from iqcar_lab.clusters.recorded import replayable
from iqcar_lab.clusters.simulation import Simulation
from iqcar_lab.clusters.truth import FAMILIES
from iqcar_lab.clusters.work import Cluster, QueryPlan, StagePlan

SHARE = 0.3


def curve(
    label: str,
    resource: str = "disk",
    share: float = SHARE,
    known: bool = True,
    rate: float | None = None,
) -> Curve:
    return Curve(
        "stage", "q", label, resource, 100.0, 2.0, 2 * share, share, 3 * share, known, share,
        0.0, 4, rate,
    )  # fmt: skip


@pytest.fixture(scope="module")
def run() -> Tables:
    cluster, plans = FAMILIES["two culprits"](np.random.default_rng(5))
    tables, _ = replayable(Simulation(cluster, plans, 5))
    labels = [f"stage {row % 3}" for row in range(len(tables.stages))]
    return tables.with_(stages=tables.stages.assign(label=labels))


@pytest.fixture(scope="module")
def demands(run: Tables) -> TaskDemands:
    cluster, plans = FAMILIES["two culprits"](np.random.default_rng(5))
    _, waits = replayable(Simulation(cluster, plans, 5))
    return task_demands(run, waits, attribute(run, waits).demand)


def rows_of(run: Tables, label: str) -> np.ndarray:
    stages = np.flatnonzero(run.stages["label"] == label)
    return np.flatnonzero(np.isin(run.tasks["stage"], stages))


def test_a_measured_stage_goes_at_the_measured_rate_and_does_the_same_work(
    run: Tables, demands: TaskDemands
) -> None:
    after, said = set_own_rates(demands, run, [curve("stage 1")])
    rows = rows_of(run, "stage 1")
    np.testing.assert_allclose(after.alone * after.use, demands.alone * demands.use, rtol=1e-9)
    host = run.tasks["host"].to_numpy()[rows]
    reads = (demands.alone[rows, READ] > 0) & (after.alone[rows, READ] < demands.spent[rows, READ])
    assert reads.any()
    moved = after.alone[rows, READ] * after.use[rows, READ]
    stage = run.tasks["stage"].to_numpy()[rows]
    for one in np.unique(stage[reads]):
        mine = stage == one
        if (after.alone[rows, READ] >= demands.spent[rows, READ])[mine].any():
            continue  # some task would have been alone for longer than it took
        rate = moved[mine].sum() / after.alone[rows, READ][mine].sum()
        assert rate == pytest.approx(SHARE * demands.capacity[host[mine][0], DISK], rel=1e-6)
    assert (after.alone <= demands.spent + 1e-9).all()
    assert "own rates of" in said and "iqcar-lab experiment" in said


def test_other_stages_and_phases_stay(run: Tables, demands: TaskDemands) -> None:
    after, _ = set_own_rates(demands, run, [curve("stage 1")])
    others = np.setdiff1d(np.arange(len(run.tasks)), rows_of(run, "stage 1"))
    np.testing.assert_array_equal(after.alone[others], demands.alone[others])
    np.testing.assert_array_equal(after.alone[:, COMPUTE], demands.alone[:, COMPUTE])


@pytest.mark.parametrize(
    "useless",
    [curve("no such stage"), curve("stage 1", known=False), curve("stage 1", "memory")],
    ids=["another label", "not identified", "no device"],
)
def test_a_curve_that_says_nothing_of_the_run_changes_nothing(
    run: Tables, demands: TaskDemands, useless: Curve
) -> None:
    after, said = set_own_rates(demands, run, [useless])
    np.testing.assert_array_equal(after.alone, demands.alone)
    np.testing.assert_array_equal(after.use, demands.use)
    assert said.startswith("own rates of 0 of")


def test_an_answer_says_that_curves_were_used(run: Tables) -> None:
    cluster, plans = FAMILIES["two culprits"](np.random.default_rng(5))
    _, waits = replayable(Simulation(cluster, plans, 5))
    demand = attribute(run, waits).demand
    said = []
    for curves in ([], [curve("stage 1")]):
        model = build_model(run, waits, demand, curves)
        assert model is not None
        found = answer(model, Question(disk=2.0), lambda name, _: ())
        said.append([line for line in found.assumptions if "iqcar-lab experiment" in line])
    assert [len(lines) for lines in said] == [0, 1]


def beside_a_hog(share: float) -> tuple[Tables, pd.DataFrame, float]:
    """Eight readers of this own rate that were never alone; their duration without the hog, ms."""
    cluster = Cluster(hosts=1, slots=24, disk=2e5)
    rate = share * cluster.disk
    stage = StagePlan(8, read=2000 * rate, read_rate=rate, cpu=100, spread=0.0)
    readers = QueryPlan("readers", (stage,), submit=500.0)
    hog = QueryPlan("hog", (StagePlan(200, read=150 * cluster.disk, cpu=5),))
    tables, waits = replayable(Simulation(cluster, [readers, hog], 3))
    stages = tables.stages.assign(label=[f"stage {row}" for row in range(len(tables.stages))])
    alone = Simulation(cluster, [readers], 3).ended[0] - readers.submit
    return tables.with_(stages=stages), waits, alone


def test_the_measured_rate_of_a_stage_that_was_never_alone_tells_what_it_takes_alone() -> None:
    """A log in which all is as slow all the time gives twice too long; a measured rate is near."""
    tables, waits, truth = beside_a_hog(0.1)
    demand = attribute(tables, waits).demand
    error = []
    for curves in ([], [curve("stage 0", share=0.1, rate=0.1 * 2e5 * 1e3)]):
        model = build_model(tables, waits, demand, curves)
        assert model is not None
        found = answer(model, Question(remove=("hog",)), lambda name, _: (1,)).queries
        error.append(abs(found["predicted_ms"].iloc[0] / truth - 1.0))
    assert error[1] < 0.25 < 1.0 < error[0]


def test_a_log_in_which_a_hog_comes_and_goes_tells_the_rate_by_itself() -> None:
    tables, waits, truth = beside_a_hog(0.25)
    model = build_model(tables, waits, attribute(tables, waits).demand)
    assert model is not None
    found = answer(model, Question(remove=("hog",)), lambda name, _: (1,)).queries.iloc[0]
    assert found["predicted_ms"] == pytest.approx(truth, rel=0.1)
    assert found["low_ms"] < truth < found["high_ms"]


def test_a_share_of_a_capacity_that_is_assumed_is_no_rate() -> None:
    tables, waits, _ = beside_a_hog(0.06)
    demands = task_demands(tables, waits, attribute(tables, waits).demand)
    assert (demands.evidence[:, DISK] == ASSUMED).all()
    after, said = set_own_rates(demands, tables, [curve("stage 0", share=0.06)])
    np.testing.assert_array_equal(after.alone, demands.alone)
    assert said.startswith("own rates of 0 of")


def test_where_a_capacity_is_assumed_a_stage_goes_at_the_rate_that_it_had_alone() -> None:
    """Nothing was short: the log does not tell how fast its tasks are by themselves."""
    tables, waits = replayable(
        Simulation(Cluster(slots=32, disk=1e9), [QueryPlan("q", (StagePlan(4, read=1e8),))], 1)
    )
    label = [f"read {row}" for row in range(len(tables.stages))]
    tables = tables.with_(stages=tables.stages.assign(label=label))
    demands = task_demands(tables, waits, attribute(tables, waits).demand)
    assert (demands.evidence[:, DISK] == ASSUMED).all()
    slow = replace(demands, spent=10 * demands.spent)  # as if something else held them up
    moved = (demands.alone * demands.use)[:, READ].sum()
    own = 1e3 * moved / demands.alone[:, READ].sum()
    quarter = curve("read 0", share=0.2, known=False, rate=own / 4)
    after, said = set_own_rates(slow, tables, [quarter])
    assert said.startswith("own rates of 1 of 1")
    assert after.alone[:, READ].sum() == pytest.approx(4 * demands.alone[:, READ].sum(), rel=1e-6)
    np.testing.assert_allclose(
        (after.alone * after.use)[:, READ], (demands.alone * demands.use)[:, READ]
    )
    full = msgspec.structs.replace(quarter, high=1.0)
    np.testing.assert_array_equal(set_own_rates(slow, tables, [full])[0].alone, slow.alone)


@pytest.mark.parametrize(
    "content",
    ["", "{}", '{"schema_version": "9", "curves": []}', '{"schema_version": "1", "curves": [{}]}'],
)
def test_what_is_no_file_of_curves_is_refused(content: str, tmp_path: Path) -> None:
    file = tmp_path / "curves.json"
    file.write_text(content)
    with pytest.raises(UsageError, match=str(file)):
        read_curves(str(file))
    with pytest.raises(UsageError, match="cannot be read"):
        read_curves(str(tmp_path / "none.json"))


def test_an_absurd_share_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "curves.json"
    absurd = msgspec.to_builtins(curve("stage 1", share=7.0))
    file.write_text(json.dumps({"schema_version": "1", "curves": [absurd]}))
    with pytest.raises(UsageError, match="own_rate_share"):
        read_curves(str(file))
