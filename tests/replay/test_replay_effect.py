"""The predicted effect of rules, and how a run is prepared for its replay."""

from __future__ import annotations

import json

import jsonschema
import numpy as np
import pytest

import iqcar
from iqcar.causes.graph.iqc_graph import build_graph
from iqcar.enums import Request
from iqcar.replay.loop.loop_input import Slots
from iqcar.replay.loop.recorded_workload import RecordedTasks, preparations_of
from iqcar.replay.rule_effect.effect import predict
from iqcar.rules.propose_rules import propose
from iqcar.rules.rule import (
    LEAST_GAIN_SHARE,
    SLOWER_SHARE,
    TWICE_SHARE,
    Outlook,
    outlook_of,
)
from iqcar.rules.vocabulary import rule_schema
from iqcar.show.json.analyze import result_schema, to_json
from iqcar.show.terminal.analyze import print_diagnosis
from tests.support.contended_log import contended_log
from tests.support.naive_replay import (
    ExecutorPlan,
    JobPlan,
    Problem,
    QueryPlan,
    StagePlan,
    simulate,
    tables_of,
)
from tests.support.random_blame import blame_of_rows

RULE = json.loads(rule_schema())["$defs"]["rule"]
SCHEMA = json.loads(rule_schema())


def hog_and_victim(hog_tasks: int = 60, task_ms: float = 1000.0) -> Problem:
    """`hog` fills four slots with short tasks for a while; `victim` comes a little later."""

    def stage(tasks: int) -> JobPlan:
        return JobPlan(1.0, (StagePlan(((task_ms,),) * tasks),))

    hog = QueryPlan(1.0, (stage(hog_tasks),))
    victim = QueryPlan(100.0, (stage(4),))
    return Problem((hog, victim), (ExecutorPlan(0.5, 4),))


def predicted(problem: Problem, request: Request = Request.SLOT_WAIT, **changes):
    """Rules and their effect where the second query lost nearly all its time to the first."""
    tables = tables_of(problem, simulate(problem))
    tables = tables.with_(
        **{name: change(getattr(tables, name)) for name, change in changes.items()}
    )
    lost = float(tables.queries["duration_ms"].iloc[1]) * 0.9
    blame = blame_of_rows(tables, [(1, request, 0, lost, [(0, lost)])], [0.0, lost])
    graph = build_graph(tables, blame)
    return predict(tables, graph, propose(tables, graph))


def test_the_victim_gains_and_what_it_costs_is_said() -> None:
    prediction = predicted(hog_and_victim())
    assert [rule.id for rule in prediction.rules] == ["AGG-1", "DYNP-1", "DYNP-2"]
    for rule in prediction.rules:
        jsonschema.validate(rule.to_dict(), {**RULE, "$defs": SCHEMA["$defs"]})
        expected = rule.expected
        assert expected["outlook"] == "helps"
        assert expected["victims"] == 1 and expected["queries"] == 2
        # The hog's tasks run for 15 s before the victim's: with a pool it need not wait for them.
        assert expected["victims_before_ms"] == pytest.approx(15_901, abs=2)
        assert expected["victims_after_ms"] < 5_000
        assert expected["before_ms"] == pytest.approx(15_901 + 15_001, abs=2)
        change = expected["victims_after_ms"] / expected["victims_before_ms"] - 1
        assert expected["victims_change_percent"] == pytest.approx(100 * change)
        assert expected["replay_error_percent"] == expected["replay_worst_error_percent"] == 0
    assert prediction.rules[1].expected["sentence"].startswith("its victim 15.9 s → ")
    assert prediction.rules[2].expected["sentence"].startswith("it 15.9 s → ")
    assert prediction.together.victims == 1
    assert prediction.together.outlook == "helps"
    # The hog gets as much later as the victim's work takes: 1 s of 15 s.
    assert prediction.together.slower == 1
    assert prediction.together.slowest["query_id"] == "app-1/sql-0"
    assert "1 query gets more than 5 % slower, most q0 (+7 %)" in prediction.together.sentence
    assert prediction.doubts == () and prediction.rejected == ()


def test_a_rule_that_cannot_help_says_so() -> None:
    """All slots run one long task each when the victim comes: FAIR takes none of them away."""
    prediction = predicted(hog_and_victim(hog_tasks=4, task_ms=10_000.0))
    for rule in prediction.rules:
        assert rule.expected["outlook"] == "no-gain"
        assert rule.expected["sentence"].startswith("no gain, it")
    assert prediction.together.victims_change_percent == 0


def test_where_pools_do_not_act_nothing_is_expected() -> None:
    prediction = predicted(hog_and_victim(), Request.SHUFFLE_FETCH)
    assert len(prediction.rules) == 3
    assert {rule.expected for rule in prediction.rules} == {None}
    assert prediction.together is None
    assert prediction.doubts == ()


def test_where_slots_are_not_known_the_effect_is_missing_and_a_doubt_says_why() -> None:
    prediction = predicted(
        hog_and_victim(),
        executors=lambda frame: frame.iloc[:0],
        tasks=lambda frame: frame.assign(executor=-1),
    )
    assert {rule.expected for rule in prediction.rules} == {None}
    assert prediction.together is None
    assert "app-1 cannot be replayed" in prediction.doubts[0]


def test_a_victim_that_never_ended_has_no_expected_effect() -> None:
    prediction = predicted(
        hog_and_victim(), queries=lambda frame: frame.assign(ended=[True, False])
    )
    assert {rule.expected for rule in prediction.rules} == {None}
    assert "the effect of AGG-1, DYNP-1, DYNP-2 cannot be predicted" in prediction.doubts[0]


def test_the_replays_own_error_is_carried_along() -> None:
    """A record that says the victim took 10 % longer than its tasks explain."""

    def slower(queries):
        lasted = queries["duration_ms"].to_numpy() * np.array([1.0, 1.25])
        return queries.assign(duration_ms=lasted)

    prediction = predicted(hog_and_victim(), queries=slower)
    assert prediction.together.replay_worst_error_percent == pytest.approx(20.0)
    assert prediction.together.replay_error_percent == pytest.approx(10.0)


@pytest.mark.parametrize(
    ("gain", "cost", "error", "outlook"),
    [
        (-0.5, 0.0, 0.01, Outlook.HELPS),
        (-0.5, 0.0, 0.6, Outlook.UNSURE),
        (-0.5, 0.0, None, Outlook.UNSURE),
        (-LEAST_GAIN_SHARE / 2, 0.0, 0.0, Outlook.NO_GAIN),
        (0.3, 0.0, 0.4, Outlook.NO_GAIN),
        (0.0, 2 * LEAST_GAIN_SHARE, None, Outlook.HARMS),
        (0.3, 0.0, 0.0, Outlook.HARMS),
        (-0.5, 2 * LEAST_GAIN_SHARE, 0.0, Outlook.HELPS),
        (-0.5, SLOWER_SHARE, 0.0, Outlook.HARMS),
        (-0.5, SLOWER_SHARE, 0.9, Outlook.HARMS),
    ],
)
def test_the_outlook_weighs_gain_cost_and_error(gain, cost, error, outlook) -> None:
    assert outlook_of(gain, cost, error) is outlook


def test_one_query_that_takes_twice_as_long_is_harm_whatever_the_others_gain() -> None:
    assert outlook_of(-0.9, -0.5, 0.0, 0.99 * TWICE_SHARE) is Outlook.HELPS
    assert outlook_of(-0.9, -0.5, 0.0, TWICE_SHARE) is Outlook.HARMS


def test_the_schema_knows_every_outlook() -> None:
    assert RULE["properties"]["expected"]["properties"]["outlook"]["enum"] == [
        outlook.value for outlook in Outlook
    ]


def test_report_and_json_show_what_is_expected(tmp_path, capsys) -> None:
    log = contended_log().write(tmp_path / "app-1")
    diagnosis = iqcar.diagnose(iqcar.read(log))
    result = json.loads(to_json(diagnosis))
    jsonschema.validate(result, json.loads(result_schema()))
    jsonschema.validate(result["rules_together"], RULE["properties"]["expected"])
    assert result["rules_together"]["outlook"] == "no-gain"
    print_diagnosis(diagnosis)
    shown = " ".join(capsys.readouterr().out.split())
    assert "Expected: no gain, it 10.0 s → 10.0 s (0 %)" in shown
    assert "All together, expected: no gain, the victim 10.0 s" in shown
    assert "A replay of the run as it was is 0.0 % off" in shown


def test_effects_are_left_out_where_nobody_asks_for_them(tmp_path) -> None:
    tables = iqcar.read(contended_log().write(tmp_path / "app-1"))
    diagnosis = iqcar.diagnose(tables, expected=False)
    assert diagnosis.rules and {rule.expected for rule in diagnosis.rules} == {None}
    assert diagnosis.rules_together is None


def preparation(tasks: list[tuple[float, float]], submitted: float, launched: float) -> float:
    """Of a stage on one executor with two slots that is there from the start."""
    launch, finish = (np.array(side, np.float64) for side in zip(*tasks, strict=True))
    zeros = np.zeros(len(tasks), np.int64)
    ran = RecordedTasks(zeros, zeros, launch, finish, np.ones(len(tasks), bool))
    zero = np.zeros(1, np.int64)
    slots = Slots(np.zeros(1), np.array([2]), np.zeros(1, bool), zero, zero, np.zeros(1))
    return float(preparations_of(ran, slots, np.array([submitted]), np.array([launched]))[0])


@pytest.mark.parametrize(
    ("tasks", "expected"),
    [
        # A slot was free all the time: the stage took as long to come ready.
        ([(10, 2000)], 500),
        # Both were taken until a moment before the launch: it waited for a slot.
        ([(10, 1499), (10, 2000)], 1),
        # Both were taken for a part of the time.
        ([(10, 1200), (10, 2000)], 300),
        # … and taken over in the same millisecond.
        ([(10, 1200), (1200, 1450), (10, 2000)], 50),
        # Freed in the same millisecond: nothing tells.
        ([(10, 1500), (10, 2000)], 0),
    ],
)
def test_only_time_since_all_slots_were_taken_is_the_stages_own(
    tasks: list[tuple[float, float]], expected: float
) -> None:
    stage = (1500.0, 1600.0)
    assert preparation([*tasks, stage], 1000.0, 1500.0) == expected
