"""Queries and stages of two sides are matched across renames, plans and labels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.comparison.comparison_tables import NODE_RUNS, NODES, QUERY_GRAPHS, QUERY_SETTINGS
from iqcar.comparison.match import Matched, match_sides
from iqcar.comparison.sides import Side, SideFacts
from iqcar.enums import MatchBy
from iqcar.errors import UsageError


class Query(NamedTuple):
    """A recurring query of one side."""

    name: str
    fingerprint: str = ""
    family: str = ""
    scans: str = ""
    operators: str = ""
    runs: tuple[int, ...] = (0,)
    labels: tuple[str, ...] = ()


def side(*queries: Query) -> Side:
    """A side that holds nothing but what is matched."""
    n = len(queries)
    stages = [(row, label) for row, query in enumerate(queries) for label in query.labels]
    seen: dict[tuple[int, str], int] = {}
    ordinal = []
    for key in stages:
        seen[key] = seen.get(key, -1) + 1
        ordinal.append(seen[key])
    blank = [""] * n
    rest = [""] * len(stages)
    nodes = NODES.frame(
        {
            "kind": ["query"] * n + ["driver"] * n + ["stage"] * len(stages),
            "query": [*range(n), *range(n), *(row for row, _ in stages)],
            "name": [*(query.name for query in queries), *blank, *rest],
            "fingerprint": [*(query.fingerprint for query in queries), *blank, *rest],
            "family": [*(query.family for query in queries), *blank, *rest],
            "scans": [*(query.scans for query in queries), *blank, *rest],
            "operators": [*(query.operators for query in queries), *blank, *rest],
            "label": [*blank, *blank, *(label for _, label in stages)],
            "ordinal": [0] * (2 * n) + ordinal,
            "order": [0.0] * (2 * n) + list(range(len(stages))),
        }
    )
    runs = [(row, run) for row, query in enumerate(queries) for run in query.runs]
    columns = {c.name: np.zeros(len(runs)) for c in NODE_RUNS.columns}
    columns |= {"node": [row for row, _ in runs], "run": [run for _, run in runs]}
    facts = SideFacts(1, (), (), (), (), {}, False)
    return Side(
        facts,
        nodes,
        NODE_RUNS.frame(columns),
        QUERY_GRAPHS.empty(),
        np.zeros((0, 0, 0)),
        QUERY_SETTINGS.empty(),
    )


def matched_queries(matched: Matched) -> list[tuple[str, str, str]]:
    of = matched.categories
    of = of[of["kind"] == "query"]
    return sorted(zip(of["name_before"], of["name_after"], of["matched_by"], strict=True))


def matched_stages(matched: Matched) -> list[tuple[str, int, str]]:
    of = matched.categories
    of = of[of["kind"] == "stage"]
    return sorted(zip(of["label"], of["ordinal"], of["matched_by"], strict=True))


JOIN = {"scans": "lineitem; orders", "operators": "Exchange; Project; SortMergeJoin"}


def test_fingerprints_come_before_names_and_names_before_plans() -> None:
    before = side(
        Query("a", "name:a", "a"),
        Query("daily 1001", "name:daily 1001", "daily"),
        Query("old", "name:old", "old", **JOIN),
    )
    after = side(
        Query("daily 1002", "name:daily 1002", "daily"),
        Query("new", "name:new", "new", **JOIN),
        Query("a", "name:a", "a"),
    )
    assert matched_queries(match_sides(before, after)) == [
        ("a", "a", "fingerprint"),
        ("daily 1001", "daily 1002", "name"),
        ("old", "new", "plan"),
    ]
    assert matched_queries(match_sides(before, after, match_by=MatchBy.NAME)) == [
        ("", "new", ""),
        ("a", "a", "fingerprint"),
        ("daily 1001", "daily 1002", "name"),
        ("old", "", ""),
    ]
    assert ("old", "new", "plan") in matched_queries(
        match_sides(before, after, match_by=MatchBy.PLAN)
    )


def test_names_of_one_family_in_one_run_are_told_apart_by_their_plans() -> None:
    other = {"scans": "events", "operators": "Window"}
    before = side(Query("at 1", family="at", **JOIN), Query("at 2", family="at", **other))
    after = side(Query("at 3", family="at", **other), Query("at 4", family="at", **JOIN))
    assert matched_queries(match_sides(before, after)) == [
        ("at 1", "at 4", "plan"),
        ("at 2", "at 3", "plan"),
    ]


def test_names_of_one_family_in_different_runs_are_one_query() -> None:
    before = side(
        *(Query(f"daily {day}", f"name:daily {day}", "daily", runs=(day,)) for day in range(3))
    )
    after = side(Query("daily 7", "name:daily 7", "daily"))
    assert matched_queries(match_sides(before, after)) == [("daily 0", "daily 7", "name")]


def test_plans_that_read_nothing_are_alike_by_operators_alone() -> None:
    before = side(Query("hog", "name:hog", "hog", operators="Exchange; HashAggregate; Range"))
    after = side(Query("report", "name:report", "report", operators="Project; Range"))
    assert matched_queries(match_sides(before, after)) == [("", "report", ""), ("hog", "", "")]
    again = side(Query("report", "name:report", "report", operators="Exchange; HashAggregate"))
    assert matched_queries(match_sides(before, again)) == [("hog", "report", "plan")]


def test_a_pair_comes_before_everything() -> None:
    before = side(Query("a", "name:a", "a"), Query("b", "name:b", "b"))
    after = side(Query("a", "name:a", "a"), Query("c", "name:c", "c"))
    matched = match_sides(before, after, pairs=[("a", "c")])
    assert matched_queries(matched) == [("", "a", ""), ("a", "c", "pair"), ("b", "", "")]
    with pytest.raises(UsageError, match="no query is called 'x'; there are a, b, …"):
        match_sides(before, after, pairs=[("x", "a")])


def test_stages_are_matched_by_label_in_order_and_the_rest_by_likeness() -> None:
    before = side(
        Query("q", "f", labels=("scan", "scan", "Exchange SortMergeJoin Project", "Window"))
    )
    after = side(Query("q", "f", labels=("scan", "Exchange ShuffledHashJoin Project", "Sort")))
    assert matched_stages(match_sides(before, after)) == [
        ("Exchange ShuffledHashJoin Project", 0, "likeness"),
        ("Sort", 0, ""),
        ("Window", 0, ""),
        ("scan", 0, "label"),
        ("scan", 1, ""),
    ]


words = st.sampled_from("abc")
queries = st.lists(
    st.builds(
        Query,
        name=words,
        fingerprint=st.sampled_from(["", "f", "g"]),
        family=st.sampled_from(["", "x", "y"]),
        scans=st.lists(words, max_size=2).map("; ".join),
        operators=st.lists(words, max_size=3).map("; ".join),
        runs=st.sets(st.integers(0, 2), min_size=1).map(lambda runs: tuple(sorted(runs))),
        labels=st.lists(st.lists(words, min_size=1, max_size=3).map(" ".join), max_size=3).map(
            tuple
        ),
    ),
    min_size=1,
    max_size=4,
)


@given(queries, queries, st.sampled_from(MatchBy))
def test_every_query_and_stage_is_in_one_category(
    before: list[Query], after: list[Query], match_by: MatchBy
) -> None:
    sides = side(*before), side(*after)
    matched = match_sides(*sides, match_by=match_by)
    for one, of in zip(sides, matched.category_of, strict=True):
        assert (of >= 0).all()
        roots = matched.categories["query_category"].to_numpy()[of]
        assert (roots == of[one.nodes["query"].to_numpy()]).all()
        assert matched.categories["kind"].to_numpy()[of].tolist() == one.nodes["kind"].tolist()
    found = {category for of in matched.category_of for category in of.tolist()}
    assert found == set(range(len(matched.categories)))


@given(queries, queries)
def test_who_comes_first_does_not_decide_how_many_are_matched(
    before: list[Query], after: list[Query]
) -> None:
    forth, back = match_sides(side(*before), side(*after)), match_sides(side(*after), side(*before))
    ways = [matched.categories["matched_by"].sort_values().tolist() for matched in (forth, back)]
    assert ways[0] == ways[1]


def test_thousands_of_renamed_queries_are_matched_once_each() -> None:
    before = side(*(Query(f"b{row}", f"b{row}", **JOIN) for row in range(3000)))
    after = side(*(Query(f"a{row}", f"a{row}", **JOIN) for row in range(3000)))
    matched = match_sides(before, after)
    assert matched.categories["matched_by"].value_counts().to_dict() == {"plan": 6000}
