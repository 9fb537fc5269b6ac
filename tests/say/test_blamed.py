"""Whom a query's lost time is put down to: one line each, whose sums are the query's loss."""

from __future__ import annotations

from types import SimpleNamespace

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.base.limits import fold
from iqcar.enums import BlameKind, Resource
from iqcar.say import find_verdict
from iqcar.say.blamed import (
    LEAST_PART,
    QueryNames,
    blamed_name,
    cause_name,
    find_blamed,
    fold_blamed,
    words_in_common,
)
from iqcar.say.sentences import LostToOthers, loss_sentence, parts_of, run_words
from tests.support.examples import examples
from tests.support.plotted import diagnosis_of
from tests.support.random_tables import RandomInput, tables_and_waits

LOST = st.floats(0.001, 1e9)
NAMES = QueryNames(
    pd.DataFrame(
        {
            "query_id": ["a/sql-0", "a/sql-1"],
            "name": ["etl", "etl"],
            "fingerprint": ["etl", "etl"],
            "start_ms": [5.0, 1.0],
        }
    )
)


def known(by_resource: dict[str, float], whole: float, limited_ms: float = 0.0) -> SimpleNamespace:
    """A graph that puts a query's loss down to known causes alone."""
    lost = sum(by_resource.values())
    row = {
        "kind": "known",
        "source_name": "known causes",
        "source_query_id": None,
        "lost_ms": lost,
        "share": lost / whole,
        "share_of_duration": 0.5,
        "by_resource": by_resource,
        "by_host": {"h1": lost},
        "idle_ms": 0.0,
        "limited_ms": limited_ms,
    }
    return SimpleNamespace(blame_rows=lambda query: [row])


@given(st.dictionaries(st.sampled_from(["slots", "cpu", "io"]), LOST, min_size=1), LOST)
def test_known_causes_in_lines_of_their_own_sum_to_what_was_one_row(
    by_resource: dict[str, float], other: float
) -> None:
    lost = sum(by_resource.values())
    lines = find_blamed(known(by_resource, lost + other), 0, NAMES)
    some = {name: ms for name, ms in by_resource.items() if ms > LEAST_PART * lost}
    assert {next(iter(one.by_resource)): one.lost_ms for one in lines} == pytest.approx(some)
    assert sum(one.lost_ms for one in lines) == pytest.approx(lost)
    assert sum(one.share for one in lines) == pytest.approx(lost / (lost + other))
    assert sum(one.share_of_run for one in lines) == pytest.approx(0.5)
    assert sum(one.by_host["h1"] for one in lines) == pytest.approx(lost)


def test_a_cpu_limit_and_garbage_collection_are_two_lines() -> None:
    graph = known({"cpu": 3000.0, "slots": 500.0}, 3500.0, limited_ms=2000.0)
    assert [(one.name, one.lost_ms, one.limited) for one in find_blamed(graph, 0, NAMES)] == [
        ("the CPU limit of executors", pytest.approx(2000.0), True),
        ("garbage collection", pytest.approx(1000.0), False),
        ("no executors yet", pytest.approx(500.0), False),
    ]
    (line,) = find_blamed(known({"cpu": 3000.0}, 3000.0, limited_ms=3000.0), 0, NAMES)
    assert line.limited


def test_waiting_for_executors_and_garbage_collection_are_two_lines_with_a_meaning() -> None:
    lines = find_blamed(known({"slots": 2000.0, "cpu": 1000.0}, 3000.0), 0, NAMES)
    assert [(one.name, one.lost_ms) for one in lines] == [
        ("no executors yet", 2000.0),
        ("garbage collection", 1000.0),
    ]
    assert all(one.meaning.endswith(".") for one in lines)


@given(made=tables_and_waits())
@examples(30)
def test_lines_and_parts_of_a_query_sum_to_what_it_lost_however_they_are_folded(
    made: RandomInput,
) -> None:
    diagnosis = diagnosis_of(made)
    names = QueryNames(diagnosis.tables.queries)
    for query in diagnosis.targets:
        lost = diagnosis.graph.lost_ms(query)
        blamed = find_blamed(diagnosis.graph, query, names)
        assert sum(one.lost_ms for one in blamed) == pytest.approx(lost)
        parts = parts_of(blamed)
        assert sum(part.lost_ms for part in parts) == pytest.approx(lost)
        assert [p.lost_ms for p in parts] == sorted((p.lost_ms for p in parts), reverse=True)
        for most in (2, 3):
            lines = fold_blamed(blamed, most)
            assert sum(one.lost_ms for one in lines) == pytest.approx(lost)
            assert sum(one.share for one in lines) == pytest.approx(1.0 if lost > 0 else 0.0)
            of_queries = [o for o in lines if o.kind in (BlameKind.QUERY, BlameKind.REST)]
            assert len(of_queries) <= most
            assert sum(one.queries for one in lines) == sum(one.queries for one in blamed)


@given(made=tables_and_waits())
@examples(20)
def test_a_finding_says_the_numbers_of_its_query(made: RandomInput) -> None:
    diagnosis = diagnosis_of(made)
    verdict = find_verdict(diagnosis)
    assert [one.query for one in verdict.targets] == list(diagnosis.targets)
    for one in verdict.targets:
        assert one.to_others_ms <= one.lost_ms
        assert one.lost_ms == pytest.approx(diagnosis.lost_ms()[one.query])
        assert one.sentence.startswith(one.name)
        assert run_words(one.lost_ms, one.others, one.outcome) == one.summary


@given(st.lists(st.floats(0, 1e6), max_size=30), st.integers(2, 12))
def test_a_list_keeps_its_largest_and_folds_no_single_row(amounts: list[float], most: int) -> None:
    kept, rest = fold(amounts, most)
    assert sorted([*kept, *rest]) == list(range(len(amounts)))
    assert len(kept) + bool(len(rest)) <= most
    assert len(rest) != 1
    if len(rest):
        assert min(amounts[at] for at in kept) >= max(amounts[at] for at in rest)


def test_queries_of_one_name_are_told_apart() -> None:
    assert [NAMES.called(row) for row in (0, 1)] == ["etl (2nd run)", "etl (1st run)"]


def test_queries_of_one_name_are_told_apart_by_their_application_first() -> None:
    queries = pd.DataFrame(
        {
            "query_id": [f"a{app}/sql-0" for app in range(4)],
            "name": ["count of sales"] * 4,
            "fingerprint": ["plan:1", "plan:2", "plan:3", "plan:3"],
            "start_ms": [5.0, 1.0, 3.0, 2.0],
            "app": range(4),
        }
    )
    applications = pd.DataFrame({"name": ["hourly", "nightly", "daily", "daily"]})
    names = QueryNames(queries, applications)
    assert [names.called(row) for row in range(4)] == [
        "count of sales (hourly)",
        "count of sales (nightly)",
        "count of sales (daily, 2nd run)",
        "count of sales (daily, 1st run)",
    ]


@pytest.mark.parametrize(
    ("names", "common"),
    [
        (["parquet: write of a", "parquet: write of b"], "parquet: write"),
        (["etl 2024-01-01", "etl 2024-01-02"], "etl"),
        (["count at A.scala:1", "join of a"], ""),
        (["etl"], "etl"),
    ],
)
def test_runs_of_unlike_names_are_called_by_what_these_begin_with(
    names: list[str], common: str
) -> None:
    assert words_in_common(names) == common


def test_every_cause_has_one_name_in_every_report() -> None:
    assert cause_name(BlameKind.OWN) == "itself (its own tasks)"
    assert cause_name(BlameKind.KNOWN, Resource.SLOTS) == "no executors yet"
    assert cause_name(BlameKind.KNOWN) == "garbage collection or no executors"
    assert cause_name(BlameKind.UNATTRIBUTED) == "unattributed"
    assert blamed_name("rest", "") == "other queries"
    assert blamed_name("query", "") == "a stage"


NAN = float("nan")


def test_an_amount_is_said_with_its_range_and_share() -> None:
    lost = LostToOthers(40_000.0, 12_000.0, 8_000.0, 15_000.0)
    assert lost.words == "to other queries 12.0 s (8.0 s … 15.0 s), 30 % of its run"
    assert lost.short == "12.0 s (8.0 s … 15.0 s)"
    assert run_words(20_000.0, lost, "") == (
        "ran 40.0 s and lost 20.0 s (50 %); "
        "to other queries 12.0 s (8.0 s … 15.0 s), 30 % of its run"
    )


def test_without_a_replay_there_is_no_range() -> None:
    assert LostToOthers(40_000.0, 12_000.0).words == "to other queries 12.0 s, 30 % of its run"
    assert LostToOthers(40_000.0, 0.0).words == ""
    assert LostToOthers(NAN, 12_000.0).words == "to other queries 12.0 s"
    assert run_words(9.0, LostToOthers(40.0, 0.0), "").endswith(
        "none of it to other queries in these logs"
    )


@pytest.mark.parametrize(
    ("resource", "told"),
    [
        (Resource.IO, "; with the plugin's disk samples it can"),
        (Resource.NETWORK, "; the plugin's samples show how busy the network was"),
        (Resource.CPU, "; with the waits that the plugin measures it can"),
        (Resource.MEMORY, "; with the waits for memory that the plugin measures it can"),
        (None, ""),
    ],
)
def test_where_nothing_and_much_are_likely_no_amount_is_said(
    resource: Resource | None, told: str
) -> None:
    lost = LostToOthers(40_000.0, 400.0, 0.0, 12_400.0, resource)
    assert lost.is_open
    assert lost.words == (
        f"to other queries between 0 and 31 % of its run: this log cannot tell{told}"
    )
    assert lost.short == "0 … 12.4 s"


def test_what_cannot_be_told_is_said_of_a_query_that_lost_nothing_else() -> None:
    lost = LostToOthers(40_000.0, 0.0, 0.0, 12_400.0, Resource.IO)
    assert loss_sentence("etl", 0.0, lost, [], names=None) == (
        "etl lost no time that could be measured. To other queries between 0 and 31 % of its run: "
        "this log cannot tell; with the plugin's disk samples it can."
    )


def test_a_narrow_range_about_little_is_no_open_question() -> None:
    assert not LostToOthers(40_000.0, 400.0, 0.0, 1_000.0).is_open
    assert not LostToOthers(40_000.0, 9_000.0, 4_000.0, 20_000.0).is_open
