"""Names of queries without what differs between their runs, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.logs.text import family, tells_apart

SAME = [
    ("daily_sales 20261001", "daily_sales 20261002", "daily_sales *"),
    ("daily_sales_2026-10-01", "daily_sales_2025-1-9", "daily_sales_*"),
    ("sales20261001", "sales19991231", "sales*"),
    ("2026/10/01 report", "01.10.2026 report", "* report"),
    ("report of Oct 1, 2026", "report of 31 December 2026", "report of *"),
    ("report 2026-10", "report 202609", "report *"),
    ("report 2026-W40", "report 2026W41-3", "report *"),
    ("load 2026-10-01T12:30:00.123Z x", "load 2026-10-02 01:02:03,5 UTC x", "load * x"),
    ("dag__daily__2026-10-01T00:00:00+00:00", "dag__daily__2026-10-02", "dag__daily__*"),
    ("made Thu Oct 01 12:30:00 CEST 2026", "made Fri Oct  2 01:02:03 2026", "made *"),
    ("20261001_1230 etl", "20261001123000 etl", "* etl"),
    ("load at 12:30", "load at 9:30 PM", "load at *"),
    ("etl 1700000000", "etl 1800000000123", "etl *"),
    ("application_1628109047826_0018", "application_1628109047999_1317105", "application_*"),
    ("app-20161116163331-0000", "app-20161116163332-0001", "app-*"),
    ("job run 853204829165334", "job run 12", "job run *"),
    ("of 0a1b2c3d-0000-1111-2222-333344445555", "of 1F2E3D4C5B", "of *"),
    ("load run 7", "load run 0012", "load run *"),
    ("batch = 12 of x", "batch = 3 of x", "batch = * of x"),
    ("q5 attempt_2", "q5 attempt_3", "q5 attempt_*"),
    ("runId=3", "runId=4", "runId=*"),
]
"""Names of two runs of one query, and what is left of both."""

KEPT = [
    *("q1", "q2", "tpcds_q39b", "v2", "top 10", "top 100 customers", "run", "step 2", "query 17"),
    *("report 2026", "report 2025", "bench-2026_q1", "run 2.4 benchmark", "dryrun 5", "runs5"),
    *("count at App.scala:12", "save at x.py:25", "collect at <console>:30", "$anonfun$run$2"),
    *("decade10", "facade12", "deadbeef", "cafe2024", "order 12345678", "account 123456789012"),
    *("ratio 1:10", "section 20261399", "part 3 of 7", "s3://bucket/t1", "version 3.5.12", "99:99"),
]
"""Names that tell queries apart by numbers."""


@pytest.mark.parametrize(("one", "other", "left"), SAME)
def test_runs_of_one_query_have_one_name(one: str, other: str, left: str) -> None:
    assert family(one) == family(other) == left


@pytest.mark.parametrize("name", KEPT)
def test_numbers_that_tell_queries_apart_stay(name: str) -> None:
    assert family(name) == name


def test_the_query_number_behind_a_date_stays() -> None:
    assert family("bench-20261001-01") == "bench-*-01" != family("bench-20261001-02")
    assert family("tpcds_2026-10-01_q01") == "tpcds_*_q01"


def test_a_name_of_nothing_but_dates_and_ids_tells_no_queries_apart() -> None:
    assert not any(map(tells_apart, ("", " - ", "2026-10-01 12:30", "20261001123000", "1f2e3d4c")))
    assert all(map(tells_apart, ("q1", "é", "daily 20261001", "5")))


PIECES = [text for *texts, _ in SAME for text in texts] + KEPT + ["_", "-", " ", ":", ".", "x", "1"]


@given(st.lists(st.sampled_from(PIECES), max_size=6).map("".join))
def test_what_is_left_is_part_of_the_name(text: str) -> None:
    left = family(text)
    rest = " ".join(text.split())
    for part in left.split("*"):
        at = rest.find(part)
        assert at >= 0
        rest = rest[at + len(part) :]


@given(st.text(max_size=60), st.integers(0, 60))
def test_names_without_digits_stay(text: str, at: int) -> None:
    plain = "".join(letter for letter in text if not letter.isnumeric())
    assert family(plain) == " ".join(plain.encode("utf-8", "replace").decode().split())
