"""Logs in several files: rolled by Spark, rolled over by Databricks."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.logs.find.layouts import arrange
from iqcar.logs.find.locate import EventLog, Unreadable, locate
from tests.support.log_places import APP, LOG, logs, parts, unreadable, write

# Rolling logs


def rolling(folder: Path, *indices: int | str, status: str = "") -> Path:
    log = folder / f"eventlog_v2_{APP}_1"
    for index in indices:
        number, _, suffix = str(index).partition(".")
        suffix = f".{suffix}" if suffix else ""
        write(log, f"events_{number}_{APP}_1{suffix}", content=LOG + b'{"n":%d}\n' % int(number))
    write(log, f"appstatus_{APP}_1{status}", content=b"")
    return log


def test_a_rolling_log_is_read_in_the_order_of_its_numbers(tmp_path: Path) -> None:
    log = rolling(tmp_path, *range(1, 13))
    (found,) = logs([tmp_path])
    assert found.path == str(log)
    assert parts(found) == [f"events_{number}_{APP}_1" for number in range(1, 13)]
    assert (found.attempt_id, found.in_progress_hint, found.problem) == ("1", False, "")


def test_a_rolling_log_in_progress_is_told_by_its_status_file(tmp_path: Path) -> None:
    rolling(tmp_path, "1.zstd", "2.zstd", status=".inprogress")
    (found,) = logs([tmp_path])
    assert found.in_progress_hint


def test_a_compact_file_stands_for_all_before_it(tmp_path: Path) -> None:
    log = rolling(tmp_path, 1, 2, "2.zstd.compact", 3, "4.compact", 4, 5, 6)
    (found,) = logs([log])
    assert parts(found) == [
        f"events_4_{APP}_1.compact",
        f"events_5_{APP}_1",
        f"events_6_{APP}_1",
    ]
    assert found.problem == ""


@pytest.mark.parametrize(
    ("indices", "missing"),
    [
        ((1, 3), "events_2"),
        ((2, 3), "events_1"),
        ((3, 6), "events_1, events_2, events_4, events_5"),
        (("2.compact", 3, 5), "events_4"),
        ((1, 999_999_999), "events_2, events_3, events_4, events_5, events_6 and 999999992 more"),
    ],
)
def test_missing_parts_of_a_rolling_log_are_named(
    tmp_path: Path, indices: tuple[int | str, ...], missing: str
) -> None:
    (found,) = logs([rolling(tmp_path, *indices)])
    assert found.problem == f"missing parts of the rolling log: {missing}"
    assert len(found.parts) == len(indices)


def test_a_rolling_folder_without_events_is_unreadable(tmp_path: Path) -> None:
    log = rolling(tmp_path)
    write(tmp_path, "log")
    assert [type(one) for one in locate([tmp_path])] == [Unreadable, EventLog]
    assert "events_<n>_" in unreadable([log])
    (log / f"appstatus_{APP}_1").unlink()
    assert "events_<n>_" in unreadable([log])


def test_a_status_file_alone_points_to_its_folder(tmp_path: Path) -> None:
    write(tmp_path, f"appstatus_{APP}", content=b"")
    assert "name the folder" in unreadable([tmp_path / f"appstatus_{APP}"])


def test_the_files_of_a_rolling_log_named_one_by_one_are_one_log(tmp_path: Path) -> None:
    log = rolling(tmp_path, 1, 2, 3)
    (found,) = logs(sorted(log.iterdir(), reverse=True))
    assert parts(found) == [f"events_{number}_{APP}_1" for number in (1, 2, 3)]
    (found,) = logs([log / f"events_2_{APP}_1", log])
    assert len(found.parts) == 3


def test_rolling_files_copied_to_another_folder_are_told_apart(tmp_path: Path) -> None:
    write(tmp_path, "events_1_local-1", "events_2_local-1", "events_1_local-2.lz4", "local-3")
    assert sorted(len(log.parts) for log in logs([tmp_path])) == [1, 1, 2]


def test_a_part_beside_its_decompressed_copy_counts_once(tmp_path: Path) -> None:
    (found,) = logs([rolling(tmp_path, 1, "1.zstd", 2)])
    assert len(found.parts) == 2


@given(st.permutations(range(1, 9)), st.integers(1, 8))
def test_the_order_of_a_folder_does_not_matter(order: list[int], kept: int) -> None:
    files = [f"events_{index}_local-1" for index in order[:kept]]
    (layout,) = arrange("eventlog_v2_local-1", files)
    assert list(layout.names) == [f"events_{index}_local-1" for index in sorted(order[:kept])]
    assert bool(layout.problem) is (max(order[:kept]) > kept)


# Databricks


def test_databricks_parts_are_read_by_date_and_the_undated_last(tmp_path: Path) -> None:
    cluster = tmp_path / "0614-170000-abc" / "eventlog" / "0614-170000-abc_10_0_0_1" / "7"
    dates = ["2021-06-14--18-00", "2021-06-14--20-00", "2021-06-15--00-00"]
    write(cluster, "eventlog", *(f"eventlog-{date}.gz" for date in reversed(dates)))
    write(cluster.parent / "8", "eventlog")
    first, second = logs([tmp_path])
    assert parts(first) == [*(f"eventlog-{date}.gz" for date in dates), "eventlog"]
    assert first.path == str(cluster / "eventlog*")
    assert second.path == str(cluster.parent / "8" / "eventlog")
