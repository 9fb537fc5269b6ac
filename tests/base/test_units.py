"""Units and words: what is written is read again; what tells runs of one query apart."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.base.units import (
    KIB,
    REQUEST_NAMES,
    RESOURCE_NAMES,
    duration,
    exact_time,
    moment,
    one_unit,
    parse_moment,
    parse_share,
    parse_shift,
    parse_size,
    parse_time,
    percent,
    read_size,
    read_time,
    run_numbers,
    size,
)
from iqcar.enums import Request, Resource
from iqcar.errors import UsageError


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


@given(st.floats(0, 3e13) | st.integers(0, 30 * 10**12))
def test_a_point_in_time_is_read_as_written(ms: float) -> None:
    assert parse_moment(f"{moment(ms)}Z", "--at") == pytest.approx(ms, abs=1_001)


@pytest.mark.parametrize("ms", [None, math.nan, math.inf, -math.inf, 1e300, 10**400, -1])
def test_no_point_in_time_is_made_up(ms: float | None) -> None:
    assert moment(ms) == ""


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


@given(st.just(0.0) | st.floats(1e-3, 3e9))
def test_a_time_that_is_written_is_read_again(ms: float) -> None:
    assert read_time(duration(ms)) == pytest.approx(ms, rel=0.05, abs=0.5)
    assert read_time(exact_time(ms)) == pytest.approx(ms, rel=1e-5)


@given(st.integers(1, 10**14))
def test_a_size_that_is_written_as_it_was_typed_is_read_again(count: int) -> None:
    assert parse_size(size(count, KIB), "") == pytest.approx(count, rel=0.05)


@given(st.floats(0.005, 1))
def test_a_share_that_is_written_is_read_again(share: float) -> None:
    assert parse_share(percent(share), "") == pytest.approx(share, abs=0.005)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        *(("500ms", 500), ("1s", 1e3), ("2 min", 12e4), ("2m", 12e4), ("1.5h", 5.4e6)),
        *(("90", 9e4), ("+10m", 6e5), ("-30s", -3e4), ("9.0 days", 7.776e8)),
        *(("soon", None), ("", None), ("1 day 2 h", None), ("1m30s", None)),
    ],
)
def test_times_are_read_in_one_way(text: str, ms: float | None) -> None:
    assert read_time(text) == ms


def test_how_long_and_how_much_later_are_bounded() -> None:
    assert parse_time("10ms", "") == 0.01
    assert parse_shift("", "-31d") == parse_shift("", -31 * 86_400_000) == -31 * 86_400_000
    for wrong in ("9ms", "-1s", "soon"):
        with pytest.raises(UsageError, match="is no time"):
            parse_time(wrong, "--for")
    for wrong in ("32d", math.nan):
        with pytest.raises(UsageError, match="more than a month"):
            parse_shift("--start", wrong)


@given(st.integers(1, 2**40))
def test_sizes_are_read_as_spark_reads_them(count: int) -> None:
    assert parse_size(f"{count}", "") == parse_size(f"{count} B", "") == count
    assert parse_size(f"{count}KB", "") == parse_size(f"{count}k", "") == count * 1024
    assert read_size(f"{count}", "k") == parse_size(f"{count}KiB", "")
    for wrong in ("", "x", "-1", "1X", "1 2", "0", "0.4", "1e9", "nan", "inf"):
        with pytest.raises(UsageError, match="is no size"):
            parse_size(wrong, "--size")


def test_moments_are_read_with_a_zone_without_one_and_as_a_number() -> None:
    assert parse_moment("2026-05-01T12:00:00Z", "") == parse_moment("2026-05-01T14:00+02:00", "")
    assert parse_moment("1777636800000", "") == parse_moment("2026-05-01T12:00:00Z", "")
    with pytest.raises(UsageError, match="is no time"):
        parse_moment("tomorrow", "--start-at")


@pytest.mark.parametrize(
    ("column", "written"),
    [
        ([640.0, 12.0, 0.3, 0.0], ["640 ms", "12 ms", "<1 ms", "0 ms"]),
        ([234_000.0, 17_500.0, 0.0], ["234.0 s", "17.5 s", "0 s"]),
        ([15_300.0, 30.0, 2.0], ["15.30 s", "0.03 s", "<0.01 s"]),
        ([5 * 3.6e6, 9 * 60e3, math.nan, None], ["300.0 min", "9.0 min", "unknown", "unknown"]),
        ([3 * 60e3, 50 * 60e3], ["3.0 min", "50.0 min"]),
        ([], []),
    ],
)
def test_a_column_of_durations_has_one_unit(column: list[float], written: list[str]) -> None:
    assert list(map(one_unit(column), column)) == written


@given(column=st.lists(st.floats(0, 1e11), min_size=1))
def test_in_a_column_no_time_becomes_nothing_and_order_can_be_seen(column: list[float]) -> None:
    cells = [one_unit(column)(ms) for ms in sorted(column)]
    assert len({cell.split()[1] for cell in cells}) == 1
    amounts = [float(cell.split()[0].removeprefix("<")) for cell in cells]
    assert amounts == sorted(amounts)
    assert all((amount > 0) == (ms > 0) for amount, ms in zip(amounts, sorted(column), strict=True))
