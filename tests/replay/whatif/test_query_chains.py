"""Queries that ran one after another wait for each other in a replay, too."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from iqcar.errors import UsageError
from iqcar.replay.whatif.model import Model
from iqcar.replay.whatif.query_chains import queries_in_turn
from iqcar.replay.whatif.question import Question, ask
from iqcar.replay.whatif.what_if import answer
from iqcar.show.json.whatif import whatif_schema
from iqcar.tables import JOBS, NONE, QUERIES, Tables
from iqcar_lab.clusters.frames import frame
from iqcar_lab.clusters.simulation import Simulation
from iqcar_lab.clusters.what_if_truth import find, model_of, without
from iqcar_lab.clusters.work import Cluster, QueryPlan, StagePlan
from tests.support.command import iqcar
from tests.support.contended_log import contended_log

LONG = 60_000.0


def ran(
    *times: tuple[float, float], groups: tuple[str, ...] = (), pools: tuple[str, ...] = ()
) -> Tables:
    """Queries of one application with these starts and ends, job groups and pools."""
    n = len(times)
    begin, end = np.array(times).T
    nothing = ("",) * n
    queries = frame(
        QUERIES, n, app=[0] * n, start_ms=begin, end_ms=end, ended=[True] * n,
        pool=list(pools or nothing),
    )  # fmt: skip
    jobs = frame(JOBS, n, app=[0] * n, query=np.arange(n), job_group=list(groups or nothing))
    return Tables.empty().with_(queries=queries, jobs=jobs)


def test_what_starts_a_moment_after_another_ended_waited_for_it() -> None:
    found = queries_in_turn(ran((0, 5000), (5100, 9000), (9300, 12_000)))
    assert found.tolist() == [NONE, 0, 1]


def test_queries_that_start_when_a_person_or_a_clock_starts_them_wait_for_none() -> None:
    found = queries_in_turn(ran((0, 5000), (60_000, 65_000), (65_100, 70_000), (120_000, 121_000)))
    assert (found == NONE).all()


def test_threads_side_by_side_are_told_by_what_each_follows() -> None:
    one = [(5000.0 * k, 5000.0 * k + 4900) for k in range(5)]
    other = [(7000.0 * k, 7000.0 * k + 6800) for k in range(4)]
    found = queries_in_turn(ran(*one, *other))
    assert found.tolist() == [NONE, 0, 1, 2, 3, NONE, 5, 6, 7]


def test_a_few_that_overlap_may_follow_by_chance() -> None:
    found = queries_in_turn(ran((0, 400), (300, 8400), (1200, 7700), (1800, 4000), (9000, 14_000)))
    assert (found == NONE).all()


def test_two_that_ended_at_once_cannot_be_told_apart_but_by_pool_or_job_group() -> None:
    times = ((0, 5000), (0, 5010), (5100, 9000), (5110, 12_000))
    assert (queries_in_turn(ran(*times)) == NONE).all()
    names = ("a", "b", "b", "a")
    for named in ({"groups": names}, {"pools": names}):
        assert queries_in_turn(ran(*times, **named)).tolist() == [NONE, NONE, 1, 0]


def test_nobody_waits_for_what_has_not_ended() -> None:
    tables = ran((0, 5000), (5100, 9000))
    queries = tables.queries.assign(ended=[False, True])
    assert (queries_in_turn(tables.with_(queries=queries)) == NONE).all()


STAGE = StagePlan(16, sleep=2000.0, cpu=10.0, spread=0.0)
PLANS = [
    QueryPlan("first", (STAGE,)),
    QueryPlan("second", (STAGE,), after="first", submit=150.0),
    QueryPlan("third", (STAGE,), after="second", submit=50.0),
    QueryPlan("beside", (STAGE,), submit=300.0),
]
CLUSTER = Cluster(hosts=1, cores=64, slots=8)


@pytest.fixture(scope="module")
def model() -> Model:
    return model_of(Simulation(CLUSTER, PLANS, 1))


def ends(model: Model, question: Question) -> np.ndarray:
    """Predicted makespan and durations."""
    said = answer(model, question, find)
    return np.array([said.total["makespan_after_ms"], *said.queries["predicted_ms"]])


def true_ends(plans: list[QueryPlan], cluster: Cluster = CLUSTER) -> np.ndarray:
    run = Simulation(cluster, plans, 1)
    return np.array([max(run.ended) - min(run.began), *run.lasted()])


def test_without_one_query_the_next_takes_its_place(model: Model) -> None:
    np.testing.assert_allclose(
        ends(model, Question(remove=("1",))), true_ends(without(PLANS, 1)), rtol=0.03
    )


def test_more_slots_let_all_of_a_session_start_earlier(model: Model) -> None:
    more = replace(CLUSTER, slots=64)
    np.testing.assert_allclose(
        ends(model, Question(slots_in_all=64)), true_ends(PLANS, more), rtol=0.03
    )


def test_starts_are_kept_where_that_is_asked(model: Model) -> None:
    kept = ends(model, Question(slots_in_all=64, starts="recorded"))
    starts = model.scenario.tables.queries["start_ms"]
    assert kept[0] == pytest.approx(starts.max() - starts.min() + 2010.0, rel=0.03)
    said = answer(model, Question(slots_in_all=64, starts="recorded"), find)
    assert any(one.startswith("queries start when they did") for one in said.assumptions)


def test_a_start_that_is_set_waits_for_none(model: Model) -> None:
    began = Simulation(CLUSTER, PLANS, 1).began[1]
    set_ = replace(PLANS[1], after="", submit=began + LONG)
    np.testing.assert_allclose(
        ends(model, Question(start={"1": LONG})), true_ends([PLANS[0], set_, *PLANS[2:]]), rtol=0.03
    )


def test_what_decides_starts_is_recorded_or_chained() -> None:
    assert ask(starts="recorded").to_dict() == {"starts": "recorded"}
    assert not ask(starts="recorded")
    with pytest.raises(UsageError, match="--starts"):
        ask(starts="yesterday")


def test_an_answer_with_recorded_starts_is_as_the_schema_says(tmp_path: Path) -> None:
    log = contended_log().write(tmp_path / "app-1")
    done = iqcar("whatif", log, "--remove", "etl", "--starts", "recorded", "--json", "-")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    jsonschema.Draft202012Validator(json.loads(whatif_schema())).validate(result)
    assert result["do"] == {"remove": ["etl"], "starts": "recorded"}
