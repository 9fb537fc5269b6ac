"""The yardstick of blame: quiet twins lose nothing, loud ones do, and a seed always says the same.

``scripts/experiments/simulated.py families`` scores blame on it.
"""

from __future__ import annotations

import numpy as np
import pytest

from iqcar.enums import Request
from iqcar.model.waits.columns import ESTIMATED, MEASURED, MISSING, evidence_column
from iqcar_lab.clusters.quiet import LOUD, QUIET, Run
from iqcar_lab.clusters.scores import EVERY, Answer, family_scores, scene
from iqcar_lab.clusters.simulation import Simulation
from iqcar_lab.clusters.steady import STEADY, twins
from iqcar_lab.clusters.truth import FAMILIES, GUILTY, costs_of_others
from iqcar_lab.clusters.work import Cluster, QueryPlan, StagePlan

SEEDS = (301, 302)


@pytest.mark.parametrize("family", STEADY)
def test_the_loud_twin_loses_and_the_quiet_one_does_not(family: str) -> None:
    for seed in SEEDS:
        loud, quiet = (Simulation(*plans, seed) for plans in vars(twins(family, seed)).values())
        assert np.abs(costs_of_others(quiet)).max() < 1e-6
        assert max(costs_of_others(loud)) > 0.05


@pytest.mark.parametrize("family", STEADY)
def test_twins_do_the_same_work_and_a_seed_draws_the_same(family: str) -> None:
    (loud, of_loud), (quiet, of_quiet) = vars(twins(family, 301)).values()
    assert [plan.name for plan in of_loud] == [plan.name for plan in of_quiet]
    assert loud.host_names == quiet.host_names
    assert twins(family, 301) == twins(family, 301)
    assert twins(family, 301) != twins(family, 302)


def test_hosts_are_named_anew_and_ids_begin_anywhere() -> None:
    first, second = (scene("steady reads", seed, True).measured.tables for seed in (301, 303))
    assert not set(first.hosts["host"]) & set(second.hosts["host"])
    assert first.stages["stage_id"].min() != second.stages["stage_id"].min()


def test_no_task_starts_on_a_host_that_goes_and_its_executor_ends_with_its_last_task() -> None:
    work = (StagePlan(40, cpu=300.0),)
    cluster = Cluster(hosts=2, slots=4, there_until=(500.0, np.inf))
    run = Simulation(cluster, [QueryPlan("q", work)], seed=1)
    there = [task for task in run.tasks if task.host == 0]
    assert max(task.launch for task in there) < 500.0 < max(task.launch for task in run.tasks)
    removed = run.emit()[0].executors["removed_ms"].to_numpy()
    assert removed[0] - 1.7e12 == pytest.approx(max(500.0, *(task.finish for task in there)))
    assert np.isnan(removed[1])


def test_who_asked_first_for_memory_in_turn_gets_all_of_it() -> None:
    holds = StagePlan(1, sleep=1000.0, memory=0.9e9, scales=(1.0,))
    plans = [QueryPlan(name, (holds,), 0, at) for name, at in (("a", 0.0), ("b", 1.0), ("c", 2.0))]
    run = Simulation(Cluster(hosts=1, memory=1e9, in_turn=True), plans, seed=1)
    assert run.ended == pytest.approx([1000.0, 2000.0, 3000.0])
    assert [task.held for task in run.tasks] == [0.9e9] * 3


def test_a_python_worker_takes_a_processor_and_no_task_tells_of_it() -> None:
    work = (StagePlan(2, cpu=100.0, python=400.0, scales=(1.0, 1.0)),)
    run = Simulation(Cluster(hosts=1, cores=1.0), [QueryPlan("q", work)], seed=1)
    assert run.ended[0] == pytest.approx(1000.0)
    assert run.emit()[1]["compute_ms"].tolist() == pytest.approx([100.0, 100.0])


def test_a_plain_log_has_peaks_and_the_heap_but_no_measured_wait_for_memory() -> None:
    at = scene("memory in turn", 301, True)
    column = evidence_column(Request.EXECUTION_MEMORY)
    assert at.plain.waits[column].isin([MISSING, ESTIMATED]).all()
    assert (at.measured.waits[column] == MEASURED).all()
    assert at.plain.tables.tasks["peak_memory_bytes"].max() > 1e8
    assert at.plain.tables.conf["key"].tolist() == ["spark.executor.memory"]


def test_samples_count_every_byte_and_a_short_disk_is_busy_all_the_time() -> None:
    loud, quiet = (
        scene("steady reads beside writes", 301, kind).measured for kind in (True, False)
    )
    for run in (loud, quiet):
        samples, tasks = run.tables.samples, run.tables.tasks
        for moved, recorded in (
            ("disk_read_bytes", "input_bytes"), ("disk_write_bytes", "shuffle_write_bytes"),
        ):  # fmt: skip
            assert samples[moved].sum() == pytest.approx(tasks[recorded].sum())
    assert loud.tables.samples["disk_busy"].median() > 0.8
    assert quiet.tables.samples["disk_busy"].max() < 0.5


def truthful(run: Run) -> Answer:
    """A method that knows the truth, at least within 5 % of a run."""
    at = next(
        found
        for found in (scene(run.family, 301, True), scene(run.family, 301, False))
        if found.measured.cost == run.cost
    )
    cost = np.maximum(run.cost, 0.0)
    lost = np.zeros((len(cost), len(cost)))
    durations = run.tables.queries["duration_ms"].to_numpy()
    for case in at.cases:
        for source, gain in case.gains.items():
            lost[case.target, source] = gain * durations[case.target]
    return Answer(cost, cost - 0.05, cost + 0.05, lost)


def test_the_truth_scores_best_and_silence_misses_all() -> None:
    def silent(run: Run) -> Answer:
        answer = truthful(run)
        nothing = np.zeros(len(answer.said))
        return Answer(nothing, nothing, nothing, 0.0 * answer.lost)

    family = "wide beside wide"
    ((_, name, best),) = list(family_scores([301], [family], truthful, [False]))[:1]
    assert name == family
    assert (best.ranks.tau, best.ranks.top, best.slope, best.held) == pytest.approx((1, 1, 1, 1))
    assert best.error == pytest.approx(0, abs=1e-6)
    assert (best.missed, best.victims, best.quiet_worst) == (0, 2, pytest.approx(0, abs=1e-6))
    assert best.width == pytest.approx(0.1)
    ((_, _, worst),) = list(family_scores([301], [family], silent, [True]))[:1]
    assert worst.missed == 1
    assert worst.error == pytest.approx(best.true, abs=1e-3)


def test_every_query_of_a_loud_run_is_a_target() -> None:
    at = scene("two applications' mix", 301, True)
    assert [case.target for case in at.cases] == list(range(len(at.measured.cost)))
    assert max(max(case.gains.values()) for case in at.cases) > GUILTY


def test_all_families_of_the_other_tables_are_in_it() -> None:
    count = sum(bool(one.loud) + bool(one.quiet) for one in EVERY.values())
    assert count == len(FAMILIES) + len(QUIET) + len(LOUD) + 2 * len(STEADY)
