"""Rules compiled to FAIR pools: what each pool gets, who goes where, and what is said about it."""

from __future__ import annotations

import json
import random
from collections import Counter
from fractions import Fraction

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.rules.compile_pools import (
    MAX_RATIO,
    MOST_STEPS,
    RATIO_ERROR,
    VICTIMS_FIRST,
    compile_rules,
    dump_pools,
    dump_rules,
    parse_rules_file,
    whole_weights,
)
from iqcar.rules.recorded_setup import Recorded
from iqcar.rules.rule import (
    NAME_LENGTH,
    PREFIX,
    Pool,
    PoolPlan,
    QueryType,
    Rule,
    RuleType,
    pool_name,
)
from iqcar.rules.vocabulary import rule_schema
from tests.support.planned_pool import planned_pool

VALIDATOR = jsonschema.Draft202012Validator(json.loads(rule_schema()))


def rule(
    kind: str, side: str, value: float, order: int = 1, name: str = "q", **more: object
) -> Rule:
    """A rule about slots, unless told otherwise."""
    fields = {
        "id": f"{kind}-{order}",
        "query_id": "app-1/sql-1",
        "fingerprint": f"name:{name}",
        "query_name": name,
        "resource": "slots",
        "reason": "It held what others waited for.",
        "helps_pools": True,
        "advice": "",
    }
    return Rule(
        rule_type=RuleType(kind),
        query_type=QueryType(side),
        rule_value=value,
        rule_order=order,
        **{**fields, **more},
    )


def agg(value: float, order: int = 1, name: str = "etl", **more: object) -> Rule:
    return rule("AGG", "source", value, order, name, **more)


def victim(value: float, order: int = 1, name: str = "report", **more: object) -> Rule:
    return rule("DYNP", "target", value, order, name, **more)


def lowered(value: float, order: int = 2, name: str = "etl", **more: object) -> Rule:
    return rule("DYNP", "source", value, order, name, **more)


def brief(plan: PoolPlan) -> dict[str, tuple[int, int]]:
    return {pool.name: (pool.weight, pool.min_share) for pool in plan.pools}


NAMES = st.sampled_from(["a", "b", "c", "d e", "d-e", "ü", "x" * 90, "default"])
VALUES = st.floats(1e-6, 1e6, allow_nan=False)


@st.composite
def rule_lists(draw: st.DrawFn) -> list[Rule]:
    """Any rules, contradictions included; ids are unique, orders are not."""
    found = []
    for number in range(draw(st.integers(0, 8))):
        kind = draw(st.sampled_from(["AGG", "DYNP"]))
        side = "source" if kind == "AGG" else draw(st.sampled_from(["source", "target"]))
        value = 1 / draw(st.integers(1, 40)) if kind == "AGG" else draw(VALUES)
        helps = draw(st.booleans())
        found.append(
            rule(
                kind,
                side,
                value,
                draw(st.integers(1, 3)),
                draw(NAMES),
                id=f"r{number}",
                helps_pools=helps,
                resource="slots" if helps else "io",
                advice="" if helps else "Read less.",
            )
        )
    return found


OWN_POOLS = st.lists(
    st.builds(
        Pool,
        st.sampled_from(["default", "gold", "iqcar-a", "ü <&>"]),
        st.integers(1, 9),
        st.integers(0, 4),
        st.sampled_from(["FIFO", "FAIR"]),
    ),
    max_size=4,
    unique_by=lambda pool: pool.name,
)
SLOTS = st.none() | st.integers(1, 1000)
RUNNING = st.none() | st.integers(1, 60)


@given(rule_lists(), SLOTS, RUNNING, OWN_POOLS)
def test_a_plan_is_one_that_spark_can_load(rules, slots, running, own) -> None:
    plan = compile_rules(rules, slots, running, own)
    names = [pool.name for pool in plan.pools]
    assert len(set(names)) == len(names)
    for pool in plan.pools:
        assert isinstance(pool.weight, int)
        assert 1 <= pool.weight <= MOST_STEPS * MAX_RATIO
        assert isinstance(pool.min_share, int)
        assert pool.min_share >= 0
        assert pool.mode in ("FIFO", "FAIR")
    made = {assignment.pool for assignment in plan.assignments}
    kept = {p.name for p in own if not p.name.startswith(PREFIX)} | {"default"}
    assert set(names) == (made | kept if made else set())
    for name in made:
        assert name.startswith(PREFIX)
        assert len(name) <= NAME_LENGTH + len(PREFIX) + 2
        assert name.isascii()
        assert name.replace("-", "").isalnum()


@given(rule_lists(), SLOTS, RUNNING, OWN_POOLS)
def test_a_fingerprint_is_in_one_pool_at_most_and_a_pool_has_one_fingerprint(
    rules, slots, running, own
) -> None:
    plan = compile_rules(rules, slots, running, own)
    assert max(Counter(a.fingerprint for a in plan.assignments).values(), default=1) == 1
    assert max(Counter(a.pool for a in plan.assignments).values(), default=1) == 1
    helped = {r.fingerprint for r in rules if r.helps_pools}
    assert {a.fingerprint for a in plan.assignments} == helped
    for fingerprint in helped:
        assert planned_pool(plan, fingerprint).name.startswith(PREFIX)


@given(rule_lists(), SLOTS, RUNNING, OWN_POOLS, st.randoms(use_true_random=False))
def test_the_order_in_which_rules_and_pools_are_given_changes_nothing(
    rules, slots, running, own, chance: random.Random
) -> None:
    plan = compile_rules(rules, slots, running, own)
    chance.shuffle(rules)
    again = compile_rules(rules, slots, running, own)
    assert again == plan


@given(rule_lists(), SLOTS, RUNNING, OWN_POOLS)
def test_every_rule_is_applied_or_a_note_says_why_not(rules, slots, running, own) -> None:
    plan = compile_rules(rules, slots, running, own)
    applied = {assignment.rule_id for assignment in plan.assignments}
    for one in rules:
        about = [note for note in plan.notes if f"{one.id} " in note]
        assert about, one
        if one.id not in applied:
            assert any("no pool" in note or "is not" in note for note in about)
        if not one.helps_pools:
            assert any(one.advice in note for note in about)


@given(rule_lists(), SLOTS, RUNNING, OWN_POOLS)
def test_compiling_what_was_read_back_from_a_file_gives_the_same_plan(
    rules, slots, running, own
) -> None:
    firsts = {(r.rule_type, r.fingerprint): r for r in reversed(rules)}
    rules = list(firsts.values())
    recorded = Recorded(slots, running, tuple(own))
    plan = compile_rules(rules, slots, running, own)
    content = dump_rules(rules, plan, recorded)
    VALIDATOR.validate(json.loads(content))
    file = parse_rules_file(content)
    assert (file.rules, file.plan, file.recorded) == (tuple(rules), plan, recorded)
    known = file.recorded
    assert compile_rules(file.rules, known.slots, known.running, known.pools) == plan


@given(st.lists(st.floats(1e-9, 1e9), min_size=1, max_size=12))
def test_whole_weights_keep_ratios_within_the_stated_error(wanted) -> None:
    weights = whole_weights(wanted)
    most = max(wanted)
    bounded = [max(value / most, 1 / MAX_RATIO) for value in wanted]
    for have, want in zip(weights, bounded, strict=True):
        for other, other_want in zip(weights, bounded, strict=True):
            assert have / other <= want / other_want * (1 + RATIO_ERROR) * (1 + 1e-9)


@given(st.lists(st.integers(1, 20), min_size=1, max_size=6))
def test_small_whole_numbers_are_weights_as_they_are(wanted) -> None:
    weights = whole_weights([value / 7 for value in wanted])
    ratio = Fraction(weights[0], wanted[0])
    exact = all(Fraction(w, v) == ratio for w, v in zip(weights, wanted, strict=True))
    assert exact or max(weights) < max(wanted)


@given(st.integers(1, 20), st.integers(1, 6), st.integers(1, 64), st.booleans(), st.integers(1, 3))
def test_a_source_gets_its_share_of_a_fair_scheduler_while_others_want_slots(
    n, sources, slots, has_own_pool, gold
) -> None:
    """The scheduler is simulated: each free slot goes where Spark's comparison sends it."""
    sources = min(sources, n)
    rules = [agg(1 / n, order, f"s{order}") for order in range(1, sources + 1)]
    own = [Pool("default"), Pool("gold", gold)] if has_own_pool else []
    plan = compile_rules(rules, None, n, own)
    slots += 20 * n
    busy = fair_slots(plan.pools, slots)
    entitled = 1 / n if sources < n else 1 / (n + 1)
    for assignment in plan.assignments:
        assert busy[assignment.pool] == pytest.approx(slots * entitled, rel=RATIO_ERROR, abs=2)


@given(rule_lists(), st.integers(1, 400), RUNNING)
def test_min_shares_leave_half_of_the_slots_and_only_raised_victims_get_one(
    rules, slots, running
) -> None:
    plan = compile_rules(rules, slots, running)
    raised = {r.id for r in rules if r.query_type is QueryType.TARGET and r.rule_value > 1}
    with_share = {
        a.rule_id for a in plan.assignments if planned_pool(plan, a.fingerprint).min_share
    }
    assert with_share <= raised
    assert sum(pool.min_share for pool in plan.pools) <= slots * VICTIMS_FIRST
    if not {r.rule_type for r in rules} - {RuleType.AGG}:
        assert not with_share
    busy = fair_slots(plan.pools, slots)
    others = [pool for pool in plan.pools if not pool.min_share]
    if others:
        by_weight = fair_level(plan.pools, slots) * sum(pool.weight for pool in others)
        got = sum(busy[pool.name] for pool in others)
        assert got >= by_weight - len(plan.pools) - 1e-6  # each holds whole slots


def fair_level(pools: tuple[Pool, ...], slots: int) -> float:
    """Slots per weight where each pool holds these or its minimum, and all hold ``slots``."""
    low, high = 0.0, float(slots)
    for _ in range(100):
        level = (low + high) / 2
        held = sum(max(pool.min_share, level * pool.weight) for pool in pools)
        low, high = (level, high) if held < slots else (low, level)
    return low


def fair_slots(pools: tuple[Pool, ...], slots: int) -> Counter[str]:
    """Who holds how many slots when every pool wants all of them (FairSchedulingAlgorithm)."""
    running: Counter[str] = Counter()

    def key(pool: Pool) -> tuple[bool, float, str]:
        has = running[pool.name]
        if has < pool.min_share:
            return False, has / max(pool.min_share, 1), pool.name
        return True, has / pool.weight, pool.name

    for _ in range(slots if pools else 0):
        running[min(pools, key=key).name] += 1
    return running


def test_one_source_among_three_queries_gets_a_third() -> None:
    plan = compile_rules([agg(1 / 3)], 8, 3)
    assert plan.pools == (Pool("iqcar-etl", 1), Pool("default", 2))
    assert fair_slots(plan.pools, 9) == {"iqcar-etl": 3, "default": 6}
    assert plan.notes == (
        "AGG-1 (etl) gets pool iqcar-etl, weight 1: 33 % of the slots while every pool wants some.",
        "Queries without a rule stay in default (weight 2), which counts as 2 queries: "
        "3 ran at once at most, and 1 of them can be in a pool of a rule.",
    )


def test_a_victim_gets_weight_by_its_priority_and_slots_before_the_others() -> None:
    plan = compile_rules([victim(3.0)], 8, 4)
    assert brief(plan) == {"iqcar-report": (1, 4), "default": (1, 0)}
    assert "offered slots first until it has 4 of 8" in plan.notes[0]
    assert brief(compile_rules([victim(3.0)], None, 4))["iqcar-report"] == (1, 0)
    busy = fair_slots(plan.pools, 8)
    assert busy == {"iqcar-report": 4, "default": 4}


def test_victims_are_served_before_a_heavy_default_pool() -> None:
    plan = compile_rules([victim(2.0)], 10, 21)
    assert brief(plan) == {"iqcar-report": (1, 5), "default": (10, 0)}
    assert fair_slots(plan.pools, 10)["iqcar-report"] == 5


def test_min_shares_are_divided_by_priority_and_rounded_for_the_worst_hit_first() -> None:
    rules = [victim(4.0, 1, "a"), victim(2.0, 2, "b"), victim(2.0, 3, "c")]
    shares = [pool.min_share for pool in compile_rules(rules, 5, 9).pools]
    assert shares == [1, 1, 0, 0]
    assert [p.min_share for p in compile_rules(rules, 1, 9).pools] == [0, 0, 0, 0]


def test_priorities_become_weights_in_proportion() -> None:
    rules = [victim(3.0, 1, "a"), victim(2.0, 2, "b"), lowered(0.5, 3, "c")]
    assert brief(compile_rules(rules, None, 5)) == {
        "iqcar-a": (6, 0),
        "iqcar-b": (4, 0),
        "iqcar-c": (1, 0),
        "default": (4, 0),
    }


def test_agg_comes_before_dynp_for_one_query() -> None:
    plan = compile_rules([lowered(0.25), agg(1 / 3)], None, 3)
    assert [a.rule_id for a in plan.assignments] == ["AGG-1"]
    assert plan.notes[0] == (
        "AGG-1 (etl) is applied and DYNP-2 for the same query is not, "
        "because AGG rules come before DYNP rules."
    )


def test_a_query_cannot_be_victim_and_source_and_a_note_says_which_it_is() -> None:
    plan = compile_rules([agg(0.5), victim(3.0, 1, "etl")], 8, 2)
    assert brief(plan) == {"iqcar-etl": (1, 0), "default": (1, 0)}
    assert plan.notes[0].endswith("The query counts as a source, not as a target.")


def test_of_two_rules_of_one_type_the_lower_order_counts() -> None:
    plan = compile_rules([victim(9.0, 2), victim(3.0, 1)], None, 2)
    assert [a.rule_id for a in plan.assignments] == ["DYNP-1"]
    assert "its rule-order 1 comes before 2" in plan.notes[0]


def test_a_rule_that_pools_cannot_act_on_makes_no_pool_but_gives_its_advice() -> None:
    plan = compile_rules([agg(0.5, resource="io", helps_pools=False, advice="Read less.")], 8, 2)
    assert plan == PoolPlan(
        notes=("AGG-1 (etl) makes no pool: pools share out slots, and it is about io. Read less.",)
    )


def test_no_rules_make_an_empty_plan() -> None:
    assert compile_rules([], 8, 3, [Pool("gold", 3)]) == PoolPlan()


def test_sources_that_ask_for_everything_leave_the_others_one_part() -> None:
    plan = compile_rules([agg(0.5, 1, "a"), agg(0.5, 2, "b")], None, 2)
    assert brief(plan) == {"iqcar-a": (1, 0), "iqcar-b": (1, 0), "default": (1, 0)}
    assert "ask for 100 % of the slots" in plan.notes[0]


def test_own_pools_share_what_rules_leave_as_before_and_keep_mode_and_min_share() -> None:
    own = [Pool("default", 1, 0, "FAIR"), Pool("gold", 3, 2, "FIFO"), Pool("iqcar-old", 9)]
    plan = compile_rules([agg(1 / 5)], None, 5, own)
    assert plan.pools == (
        Pool("iqcar-etl", 1, 0, "FAIR"),
        Pool("default", 1, 0, "FAIR"),
        Pool("gold", 3, 2, "FIFO"),
    )
    assert plan.notes[0].startswith("The run was recorded under earlier rules (iqcar-old)")


def test_without_a_count_of_queries_the_shares_tell_it() -> None:
    assert brief(compile_rules([agg(1 / 4)]))["default"] == (3, 0)
    assert brief(compile_rules([victim(2.0)])) == {"iqcar-report": (2, 0), "default": (1, 0)}


def test_extreme_priorities_are_bounded_and_a_note_says_so() -> None:
    plan = compile_rules([victim(1e300)], 10, 2)
    assert brief(plan) == {"iqcar-report": (100, 5), "default": (1, 0)}
    assert any("100 times" in note for note in plan.notes)


def test_names_of_pools_are_safe_short_and_unique() -> None:
    assert pool_name("q39b", set()) == "iqcar-q39b"
    assert pool_name("q39b", {"iqcar-q39b", "iqcar-q39b-2"}) == "iqcar-q39b-3"
    assert pool_name('SELECT "a" <&> b;\n--', set()) == "iqcar-SELECT-a-b"
    assert pool_name("日本", set()) == "iqcar-query"
    assert len(pool_name("x" * 999, set())) == NAME_LENGTH + len(PREFIX)


def test_pools_alone_are_the_rules_file_without_rules() -> None:
    plan = compile_rules([agg(1 / 3)], 8, 3)
    alone, whole = json.loads(dump_pools(plan)), json.loads(dump_rules([agg(1 / 3)], plan))
    assert alone == {key: value for key, value in whole.items() if key != "rules"}
