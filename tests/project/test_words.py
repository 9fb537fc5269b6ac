"""Words of reports: durations, and what tells runs of one query apart."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.base.formatting import REQUEST_NAMES, RESOURCE_NAMES, duration, run_numbers
from iqcar.enums import Request, Resource


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (640, "640 ms"),
        (41_200, "41.2 s"),
        (750_000, "12.5 min"),
        (11_160_000, "3.1 h"),
        (777_600_000, "9.0 days"),
        (math.nan, "unknown"),
        (None, "unknown"),
    ],
)
def test_durations_are_written_in_the_unit_people_would_use(ms: float | None, text: str) -> None:
    assert duration(ms) == text


def test_runs_of_one_number_in_two_applications_are_told_apart() -> None:
    ids = ["local-171/sql-1", "local-172/sql-1", "local-172/sql-2", "local-171/sql-3"]
    assert run_numbers(ids, ["q", "q", "q", "other"]) == [
        "…-171/sql-1",
        "…-172/sql-1",
        "sql-2",
        "sql-3",
    ]


runs = st.lists(
    st.tuples(st.integers(100_000, 100_099), st.integers(0, 5), st.sampled_from("ab")), unique=True
)


@given(runs)
def test_no_two_runs_are_called_the_same(found: list[tuple[int, int, str]]) -> None:
    ids = [f"application_1_{app}/sql-{number}" for app, number, _ in found]
    names = [name for _, _, name in found]
    called = list(zip(names, run_numbers(ids, names), strict=True))
    assert len(set(called)) == len(called)


def test_every_request_and_resource_has_a_name() -> None:
    assert set(REQUEST_NAMES) == set(Request)
    assert set(RESOURCE_NAMES) == set(Resource)
