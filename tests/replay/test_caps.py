"""Caps on pools: never exceeded, idle slots counted, proposed where no weight helps, compiled."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import jsonschema
import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import iqcar
from iqcar.diagnosis import Diagnosis
from iqcar.errors import IqcarError
from iqcar.replay.loop.event_loop import run
from iqcar.replay.loop.run import idle_slot_ms, replay
from iqcar.replay.loop.scheduling import NO_CAP
from iqcar.rules.compile_pools import allocation_xml, compile_rules, dump_compiled, parse_rules_file
from iqcar.rules.rule import Assignment, Pool, PoolPlan, Rule, RuleType, how_to
from iqcar.rules.vocabulary import rule_schema
from iqcar.say.rule_lines import rule_lines
from iqcar.show.terminal.rules import print_plan
from tests.replay.test_rejected_rules import query
from tests.support.naive_replay import ExecutorPlan, Problem, simulate, tables_of
from tests.support.naive_sharing import random_input
from tests.support.planned_pool import planned_pool
from tests.support.replayed_log import write_log

SEEDS = st.integers(0, 2**32 - 1)
EIGHT_SLOTS = (ExecutorPlan(0.0, 8),)
NAMES = ("etl", "report")
HELD = Problem((query(1.0, 8, 20_000.0), query(100.0, 2, 500.0)), EIGHT_SLOTS)
"""`etl` takes all slots for 20 s while nobody else wants one; then `report` wants two for 0.5 s."""
VALIDATOR = jsonschema.Draft202012Validator(json.loads(rule_schema()))


def diagnosed(folder: Path, problem: Problem, names: tuple[str, ...]) -> Diagnosis:
    return iqcar.diagnose(iqcar.read(write_log(folder / "app", problem, names=names)))


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Diagnosis:
    return diagnosed(tmp_path_factory.mktemp("held"), HELD, NAMES)


def cap_of(diagnosis: Diagnosis) -> Rule:
    (rule,) = (rule for rule in diagnosis.rules if rule.rule_type is RuleType.CAP)
    return rule


@given(SEEDS)
def test_a_strict_cap_is_never_exceeded(seed: int) -> None:
    steps, work, slots, shares, devices = random_input(seed)
    found = run(steps, work, slots, shares, devices)
    app = shares.pool_app[shares.pool]
    for cap in np.flatnonzero(shares.cap_strict):
        mine = np.flatnonzero(shares.cap_of[work.step] == cap)
        for now in found.launched[mine]:
            of_app = app[work.step[mine[0]]]
            there = slots.change[(slots.app == of_app) & (slots.when <= now)].sum()
            most = min(shares.cap[cap], max(int(shares.cap_share[cap] * there + 1e-9), 1))
            running = (found.launched[mine] <= now) & (found.ended[mine] > now)
            assert running.sum() <= most


@given(SEEDS)
def test_a_cap_that_nothing_reaches_changes_nothing(seed: int) -> None:
    steps, work, slots, shares, devices = random_input(seed)
    n = len(shares.cap)
    free = shares._replace(cap_of=np.full(len(shares.cap_of), -1))
    wide = shares._replace(cap=np.full(n, NO_CAP), cap_share=np.ones(n))
    expected = run(steps, work, slots, free, devices)
    for one in (wide, wide._replace(cap_strict=~wide.cap_strict)):
        found = run(steps, work, slots, one, devices)
        np.testing.assert_array_equal(found.launched, expected.launched)
        assert idle_slot_ms(steps, work, slots, one, found) == 0


@given(SEEDS)
def test_idle_time_is_that_of_free_slots_while_held_back_tasks_wait(seed: int) -> None:
    steps, work, slots, shares, devices = random_input(seed)
    found = run(steps, work, slots, shares, devices)
    strict = (shares.cap_of >= 0) & np.append(shares.cap_strict, False)[shares.cap_of]
    app = shares.pool_app[shares.pool]
    ready = (found.released + steps.ready)[work.step]
    moments = np.unique(np.concatenate([slots.when, ready, found.launched, found.ended]))
    idle = 0.0
    for now, then in pairwise(moments):
        middle = (now + then) / 2
        runs = (found.launched < middle) & (found.ended > middle)
        waits = (ready < middle) & (found.launched > middle) & strict[work.step]
        for a in range(len(shares.fair)):
            mine = app[work.step] == a
            free = (
                slots.change[(slots.app == a) & (slots.when < middle)].sum() - (runs & mine).sum()
            )
            idle += (then - now) * min(free, (waits & mine).sum())
    assert idle_slot_ms(steps, work, slots, shares, found) == pytest.approx(idle, abs=1e-6)


def planned(**cap: object) -> PoolPlan:
    return PoolPlan((Pool("hog", 1, 0, "FIFO", **cap),), (Assignment("hog", "r", "name:q0"),))


def test_only_a_strict_cap_keeps_slots_from_a_query_that_is_alone() -> None:
    tables = tables_of(HELD, simulate(HELD))
    lent, strict = (replay(tables, planned(cap=7, strict=strict)) for strict in (False, True))
    assert lent.duration_ms[1] == pytest.approx(20_402, abs=2) and lent.idle_slot_ms == 0
    # One slot stays free, but for a second of work of `report`, until the first wave ends.
    assert strict.duration_ms[1] == pytest.approx(1_001, abs=2)
    assert strict.idle_slot_ms == pytest.approx(19_000, abs=1)
    assert strict.duration_ms[0] == pytest.approx(40_001, abs=2)


@pytest.mark.parametrize(("cap", "share", "same_as"), [(3, 0.9, 3), (7, 0.5, 4), (7, 0.01, 1)])
def test_of_a_number_and_a_share_the_smaller_acts(cap: int, share: float, same_as: int) -> None:
    tables = tables_of(HELD, simulate(HELD))
    both = replay(tables, planned(cap=cap, cap_share=share, strict=True))
    one = replay(tables, planned(cap=same_as, strict=True))
    assert both.end_ms.tolist() == one.end_ms.tolist()


def test_a_cap_is_proposed_where_weights_do_not_help_with_what_it_costs(held: Diagnosis) -> None:
    rule = cap_of(held)
    assert (rule.id, rule.query_name, rule.rule_value, rule.strict) == ("CAP-1", "etl", 0.9, True)
    assert rule.reason.endswith("; other weights alone do not help.")
    expected = rule.expected
    assert expected["outlook"] == "helps" and expected["victims_after_ms"] < 1_100
    assert expected["idle_slot_ms"] == pytest.approx(19_000, abs=50)
    # 40 s on eight slots.
    assert expected["idle_slots_percent"] == pytest.approx(100 * 19 / (8 * 40), abs=0.1)
    assert expected["source_change_percent"] == pytest.approx(100, abs=1)
    assert (
        "the capped query takes 20.0 s → 40.0 s (+100 %), and 19.0 slot-seconds stand idle for it"
        in expected["sentence"]
    )
    weights = [r for r in held.rules if r.rule_type in (RuleType.AGG, RuleType.DYNP)]
    assert weights and {r.expected["outlook"] for r in weights} == {"no-gain"}
    assert all("idle_slot_ms" not in r.expected for r in weights)


def test_no_cap_is_proposed_where_weights_help(tmp_path: Path) -> None:
    """Tasks are long, but only the first wave of them cannot be helped."""
    problem = Problem((query(1.0, 16, 20_000.0), query(100.0, 2, 500.0)), EIGHT_SLOTS)
    log = write_log(tmp_path / "app", problem, names=NAMES)
    every = iqcar.diagnose(iqcar.read(log), all_rules=True)
    assert every.rules and RuleType.CAP not in {rule.rule_type for rule in every.rules}
    assert "helps" in {rule.expected["outlook"] for rule in every.rules if rule.expected}


def test_a_cap_that_harms_is_rejected(tmp_path: Path) -> None:
    """`report` comes when half of the wait is over: it gains 10 s, and `etl` pays 20 s."""
    problem = Problem((query(1.0, 8, 20_000.0), query(10_000.0, 2, 500.0)), EIGHT_SLOTS)
    tables = iqcar.read(write_log(tmp_path / "app", problem, names=NAMES))
    diagnosis = iqcar.diagnose(tables)
    assert RuleType.CAP not in {rule.rule_type for rule in diagnosis.rules}
    (rejected,) = (one for one in diagnosis.rejected_rules if one.rule.rule_type is RuleType.CAP)
    assert rejected.why.startswith("more harm than good, its victim 10.5 s → ")
    every = iqcar.diagnose(tables, all_rules=True)
    rule = cap_of(every)
    assert rule.harms
    assert planned_pool(compile_rules([rule], 8, 2), rule.fingerprint) is None
    assert planned_pool(compile_rules([rule], 8, 2, all_rules=True), rule.fingerprint).is_capped


def test_a_query_has_one_pool_with_a_weight_and_a_cap(held: Diagnosis, capsys) -> None:
    file = dump_compiled(held.tables, held.rules)
    VALIDATOR.validate(json.loads(file))
    read = parse_rules_file(file)
    assert read.rules == held.rules
    rule = cap_of(held)
    pool = planned_pool(read.plan, rule.fingerprint)
    assert (pool.cap, pool.cap_share, pool.strict) == (None, 0.9, True)
    weights = compile_rules([r for r in held.rules if r is not rule], 8, 2)
    assert msgspec.structs.replace(pool, cap_share=None, strict=False) == planned_pool(
        weights, rule.fingerprint
    )
    assert [a.rule_id for a in read.plan.assignments].count("AGG-1") == 1
    said = "CAP-1 (etl) caps pool iqcar-etl: its tasks run in 90 % of the slots at most, 7 of 8"
    assert said in " ".join(read.plan.notes)
    assert b"cap" not in allocation_xml(read.plan.pools).replace(b"iqcar", b"")
    written = json.loads(file)["pools"]
    assert [set(one) & {"cap", "cap_share", "strict"} for one in written] == [
        {"cap_share", "strict"} if one["name"] == pool.name else set() for one in written
    ]
    print_plan(read.plan)
    assert "90 % of the slots" in capsys.readouterr().out
    assert "90 % of the slots, strict |" in how_to(read.plan, held.rules, "r.json", "p", "x")
    (line,) = (one for one in rule_lines(held.rules) if one.id == rule.id)
    assert line.does == "Let tasks of etl take at most 90 % of the slots."


def test_a_cap_alone_makes_a_pool_of_ordinary_weight(held: Diagnosis) -> None:
    rule = cap_of(held)
    plan = compile_rules([rule], 8, 4)
    pool = planned_pool(plan, rule.fingerprint)
    (default,) = (one for one in plan.pools if one.name == "default")
    assert default.weight == 3 * pool.weight
    assert (pool.cap_share, pool.min_share) == (0.9, 0)


def test_a_cap_that_acted_stays_in_the_next_round(held: Diagnosis, tmp_path: Path) -> None:
    file = parse_rules_file(dump_compiled(held.tables, held.rules))
    pools = [planned_pool(file.plan, f"name:{name}") for name in NAMES]
    queries = tuple(replace(q, pool=p.name) for q, p in zip(HELD.queries, pools, strict=True))
    under = replace(HELD, mode="FAIR", pools=file.plan.pools, queries=queries)
    log = write_log(tmp_path / "app", HELD, shares=under, names=NAMES)
    after = iqcar.diagnose(iqcar.read(log), previous=file)
    assert cap_of(after) == cap_of(held)
    pool = planned_pool(
        parse_rules_file(dump_compiled(after.tables, after.rules)).plan, cap_of(held).fingerprint
    )
    assert pool.is_capped


@pytest.mark.parametrize(
    ("number", "changes", "says"),
    [
        (-1, {"query-type": "target"}, "a CAP rule is for a source"),
        (-1, {"rule-value": 1.5}, "share of a CAP rule is at most 1"),
        (0, {"strict": True}, "only CAP rules are strict"),
        (-1, {"strict": 1}, "strict"),
    ],
)
def test_broken_caps_are_refused_by_reader_and_schema(
    held: Diagnosis, number: int, changes: dict, says: str
) -> None:
    file = json.loads(dump_compiled(held.tables, [held.rules[0], cap_of(held)]))
    file["rules"][number].update(changes)
    with pytest.raises(IqcarError, match=says):
        parse_rules_file(json.dumps(file))
    assert not VALIDATOR.is_valid(file)
