"""A log that a History Server compacted: what is missing is said, and that nobody is acquitted."""

from __future__ import annotations

from pathlib import Path

import pytest

from iqcar.logs import read_logs
from iqcar.model.doubts import find_doubts
from iqcar.model.queries.identify import identify
from iqcar.model.waits.measure import measure_waits
from iqcar.tables import Tables, texts
from iqcar_lab.clusters.event_log import SyntheticLog, stage_info

APP = "app-7"
KEPT = {2: (5_000, 60_000), 9: (30_000, 40_000), 10: (45_000, 46_000)}
"""Jobs by id that are in the log: from when to when they ran."""


def compacted(folder: Path, kept: dict[int, tuple[int, int]], suffix: str = ".compact") -> Tables:
    log = SyntheticLog(APP).app(start=1_000).executor()
    for job, (start, end) in kept.items():
        info = stage_info(job, submission=start)
        log.job(job, [info], start, {"spark.jobGroup.id": f"g{job}"}).stage(info)
        log.task(job, stage=job, launch=start, finish=end)
        log.stage_end(info, end).job_end(job, end)
    place = folder / f"eventlog_v2_{APP}"
    place.mkdir()
    log.end(61_000).write(place / f"events_3_{APP}{suffix}")
    (place / f"appstatus_{APP}").touch()
    return identify(read_logs([str(place)]))


def test_ids_below_those_kept_tell_which_jobs_are_gone_and_from_when_to_when(
    tmp_path: Path,
) -> None:
    tables = compacted(tmp_path, KEPT)
    (message,) = texts(tables.inputs, "message")
    assert "dropped 8 jobs (0 to 1, 3 to 8), 8 stages (0 to 1, 3 to 8), which" in message
    assert "From 1970-01-01 00:00:01 to 1970-01-01 00:00:40 at the latest" in message
    assert "(0 ms to 39.0 s after the application's start)" in message
    assert tables.applications["gone_until_ms"].tolist() == [40_000]


def test_the_time_begins_with_the_kept_job_before_the_first_that_is_gone(tmp_path: Path) -> None:
    tables = compacted(tmp_path, {0: (5_000, 60_000), 9: (30_000, 40_000)})
    (message,) = texts(tables.inputs, "message")
    assert "From 1970-01-01 00:00:05 to 1970-01-01 00:00:40 at the latest" in message


def test_whom_to_blame_may_be_gone(tmp_path: Path) -> None:
    tables = compacted(tmp_path, {9: (30_000, 40_000), 10: (45_000, 46_000)})
    doubts = " ".join(find_doubts(tables, measure_waits(tables)))
    assert "those that were in the way may be missing" in doubts
    assert "the load of executors is a lower bound" in doubts
    assert "nothing here can be blamed" not in doubts


@pytest.mark.parametrize("suffix", ["", ".compact"])
def test_where_no_id_is_missing_nothing_is_gone(suffix: str, tmp_path: Path) -> None:
    tables = compacted(tmp_path, {0: (1_000, 2_000), 1: (3_000, 4_000)}, suffix)
    assert tables.applications["gone_until_ms"].isna().all()
    doubts = " ".join(find_doubts(tables, measure_waits(tables)))
    assert ("compacted" in doubts) == bool(suffix)
    assert "nothing here can be blamed" in doubts
