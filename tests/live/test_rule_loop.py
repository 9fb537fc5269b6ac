"""When a rule is written, taken back or refused; what holds whatever the windows say."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iqcar.live.rule_loop import (
    HOUR_MS,
    Action,
    Limits,
    LoopState,
    WindowEvidence,
    most_changes_held,
    step,
)
from iqcar.rules.rule import QueryType, RuleType, key_of, opposite
from tests.support.live_rules import WINDOW_MS, raised, rule, run, window

LIMITS = Limits(wins=3, of_windows=5, missed_windows=4)
ETL, REPORT = rule("etl"), raised("report")
WON = ([(ETL, 500.0)], ())
NEEDED, QUIET = ((), [ETL]), ((), ())


def actions(said) -> list[list[tuple[str, str]]]:
    return [[(c.action.value, c.rule.query_name) for c in changes] for changes in said]


def test_a_rule_is_written_when_it_won_in_three_of_five_windows() -> None:
    state, said = run([WON, QUIET, WON, QUIET], LIMITS)
    assert actions(said) == [[], [], [], []]
    state, said = run([WON], LIMITS, state, 4)
    assert actions(said) == [[("write", "etl")]]
    assert said[0][0].reason == "it won in 3 of the last 5 windows"
    assert said[0][0].gain_ms == 500
    assert state.rules() == (ETL,)


def test_wins_that_are_too_far_apart_do_not_count() -> None:
    _, said = run([WON, QUIET, QUIET, WON, QUIET, QUIET] * 4, LIMITS)
    assert not any(said)


def test_a_rule_stays_while_it_is_needed_although_nothing_is_blamed_any_more() -> None:
    state, said = run([WON] * 3 + [NEEDED] * 200, LIMITS)
    assert sum(map(len, said)) == 1
    assert state.rules() == (ETL,)


def test_a_rule_is_taken_back_after_four_windows_in_a_row_without_need() -> None:
    windows = [WON] * 3 + [QUIET] * 3 + [NEEDED] + [QUIET] * 4
    state, said = run(windows, LIMITS)
    assert [n for n, changes in enumerate(said) if changes] == [2, 10]
    assert actions(said)[-1] == [("take-back", "etl")]
    assert "nothing needed it in 4 windows in a row" in said[-1][0].reason
    assert state.rules() == ()


def test_a_rule_whose_victims_got_slower_is_taken_back() -> None:
    state, _ = run([WON] * 3, LIMITS)
    for number in range(3, 7):
        evidence = window(number, needed=[ETL], harmed=[ETL])
        state, changes = step(state, evidence, evidence.end_ms, LIMITS)
    assert [change.action for change in changes] == [Action.TAKE_BACK]
    assert "its victims are slower with it" in changes[0].reason


def test_a_rule_that_was_taken_back_waits_longer_each_time_and_stays_longer() -> None:
    limits = replace(LIMITS, hold_off_ms=10 * WINDOW_MS, max_changes_per_hour=1000)
    state, number = LoopState(), 0
    waited, stayed = [], []
    for _ in range(3):
        since = number
        while not state.in_force:
            state, _ = run([WON], limits, state, number)
            number += 1
        waited.append(number - since)
        since = number
        while state.in_force:
            state, _ = run([QUIET], limits, state, number)
            number += 1
        stayed.append(number - since)
    assert waited == [3, 10, 20]
    assert stayed == [4, 8, 16]


def test_why_a_rule_that_won_is_not_written_is_said_once() -> None:
    other = rule("nightly")
    limits = replace(LIMITS, max_rules=1)
    state, said = run([WON] * 3 + [([(other, 900.0)], [ETL])] * 9, limits)
    refusals = [c for changes in said for c in changes if c.action is Action.REFUSE]
    assert [c.reason for c in refusals] == ["1 rules act already, and no more may"]
    assert state.rules() == (ETL,)


def test_a_query_that_is_held_back_is_never_raised() -> None:
    up = raised("etl")
    state, said = run([WON] * 3 + [([(up, 900.0)], [ETL])] * 20, LIMITS)
    assert state.rules() == (ETL,)
    (refusal,) = said[5]
    assert refusal.reason.startswith("it would raise a query that an acting rule (AGG) holds back")


def test_rules_that_were_in_the_file_are_neither_doubled_nor_contradicted() -> None:
    fixed = LoopState(fixed=(ETL,))
    state, said = run([([(ETL, 500.0), (raised("etl"), 400.0)], ())] * 9, LIMITS, fixed)
    assert state.rules() == ()
    assert actions(said)[2] == [("refuse", "etl")] and not any(said[3:])


def test_a_query_gets_one_rule_for_its_weight() -> None:
    lower = rule("etl", RuleType.DYNP, value=0.5)
    state, said = run([([(ETL, 300.0), (lower, 900.0)], [lower])] * 12, LIMITS)
    assert state.rules() == (lower,)
    assert sum(map(len, said)) == 1


def test_a_change_voids_the_evidence_from_before_it() -> None:
    both = ([(ETL, 500.0), (REPORT, 400.0)], [ETL, REPORT])
    _, said = run([both] * 8, LIMITS)
    assert [n for n, changes in enumerate(said) if changes] == [2, 5]


def test_a_window_that_brings_hardly_anything_new_does_not_count() -> None:
    state = LoopState()
    for number in range(10):
        end = 10_000.0 + 500.0 * number
        evidence = replace(window(0, [(ETL, 500.0)]), start_ms=end - 10_000.0, end_ms=end)
        state, changes = step(state, evidence, end, LIMITS)
        assert changes == ()
    assert state.gains[key_of(ETL)] == (500.0,)


def test_a_clock_that_runs_backwards_stands_still() -> None:
    state, _ = run([WON] * 2, LIMITS)
    state, _ = step(state, window(2, [(ETL, 1.0)]), -5.0, LIMITS)
    assert state.now_ms == 2 * WINDOW_MS and state.rules() == (ETL,)


def test_limits_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="wins"):
        Limits(wins=4, of_windows=3)


RULES = [
    *(rule(name) for name in "abc"),
    *(rule(name, RuleType.DYNP, value=0.5) for name in "abc"),
    *(raised(name) for name in "abcd"),
]
WINDOWS = st.lists(
    st.tuples(
        st.lists(
            st.tuples(st.sampled_from(RULES), st.floats(1, 1e4)),
            max_size=6,
            unique_by=lambda p: key_of(p[0]),
        ),
        st.lists(st.sampled_from(RULES), max_size=10),
        st.floats(0.2, 3.0),
    ),
    max_size=60,
)
SMALL = st.builds(
    Limits,
    max_rules=st.integers(0, 4),
    max_changes_per_hour=st.integers(0, 9),
    wins=st.just(2),
    of_windows=st.integers(2, 5),
    missed_windows=st.integers(1, 4),
    hold_off_ms=st.floats(0, 1e5),
)


def replayed(windows, limits, order=None):
    """Take in windows of changing pace; the state and the changes after each."""
    state, now = LoopState(), 0.0
    for number, (proposals, needed, pace) in enumerate(windows):
        now += pace * WINDOW_MS * 20
        shuffled = proposals if order is None else order(proposals)
        evidence = replace(window(number, shuffled, needed), start_ms=now - WINDOW_MS, end_ms=now)
        state, changes = step(state, evidence, now, limits)
        yield now, state, changes


@given(WINDOWS, SMALL)
def test_limits_hold_whatever_is_proposed(windows, limits: Limits) -> None:
    at: list[float] = []
    for now, state, changes in replayed(windows, limits):
        done = [c for c in changes if c.action is not Action.REFUSE]
        at += [now] * len(done)
        assert sum(now - one < HOUR_MS for one in at) <= limits.max_changes_per_hour
        assert most_changes_held(state) <= limits.max_changes_per_hour
        assert len(state.in_force) <= limits.max_rules
        acting = state.rules()
        assert not any(opposite(one, other) for one in acting for other in acting)
        assert len({(one.rule_type, one.fingerprint) for one in acting}) == len(acting)
        assert sum(c.action is Action.WRITE for c in changes) <= 1


@given(WINDOWS, SMALL, st.randoms(use_true_random=False))
def test_the_order_of_proposals_makes_no_difference(windows, limits: Limits, random) -> None:
    def shuffled(proposals):
        return random.sample(proposals, len(proposals))

    assert list(replayed(windows, limits)) == list(replayed(windows, limits, shuffled))


@given(st.lists(st.lists(st.sampled_from(RULES), max_size=5), max_size=40), SMALL)
def test_a_cluster_where_nothing_is_proposed_gets_no_rule(needs, limits: Limits) -> None:
    state, said = run([((), needed) for needed in needs], limits)
    assert state.rules() == () and not any(said)


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1))
def test_noise_that_wins_now_and_then_is_not_acted_on(seed: int) -> None:
    """A false proposal in one window of twelve, never twice within five windows."""
    windows = [WON if (n + seed) % 12 == 0 else QUIET for n in range(500)]
    assert not any(run(windows, LIMITS)[1])


def test_a_taken_back_rule_always_had_a_change_in_reserve() -> None:
    limits = replace(LIMITS, max_changes_per_hour=2, missed_windows=1)
    state, said = run([WON] * 3 + [QUIET] + [WON] * 30, limits)
    assert [c.action for changes in said for c in changes][:2] == [Action.WRITE, Action.TAKE_BACK]
    assert [c.reason for changes in said[4:] for c in changes][-1].startswith(
        "there were 2 changes in the last hour"
    )
    assert state.rules() == ()


def test_an_empty_window_is_no_evidence() -> None:
    state = LoopState()
    assert step(state, WindowEvidence(5.0, 5.0), 5.0, LIMITS) == (
        replace(state, end_ms=5.0, now_ms=5.0),
        (),
    )
    assert QueryType.SOURCE in key_of(ETL)
