"""What becomes of an input: its status and message, alone and among others."""

from __future__ import annotations

from pathlib import Path

import pytest

from iqcar.base import workers
from iqcar.enums import InputStatus
from iqcar.logs import ReadProgress, read_logs
from iqcar.logs.find.locate import locate
from iqcar.logs.log_summary import peek
from iqcar.tables import texts
from iqcar_lab.clusters.event_log import SyntheticLog, sql_update
from tests.support.small_log import only_input, read, small_log

# -- status --------------------------------------------------------------------------------------


def test_a_log_without_an_end_is_in_progress(tmp_path: Path) -> None:
    row = only_input(read(small_log(), tmp_path))
    assert row["status"] == "in_progress"
    assert "no end of the application" in row["message"]


def test_a_line_cut_off_at_the_end_is_a_loss_unless_the_log_is_in_progress(tmp_path: Path) -> None:
    data = small_log().bytes()[:-40]
    (tmp_path / "app-1").write_bytes(data)
    (tmp_path / "app-2.inprogress").write_bytes(data)
    cut = only_input(read_logs([tmp_path / "app-1"]))
    going_on = only_input(read_logs([tmp_path / "app-2.inprogress"]))
    assert (cut["status"], cut["malformed_lines"]) == ("truncated", 1)
    assert "cut off" in cut["message"]
    assert (going_on["status"], going_on["malformed_lines"]) == ("in_progress", 1)


def test_an_application_that_ends_after_its_log_was_found_is_read(tmp_path: Path) -> None:
    for name in ("app-1", "app-2"):
        (tmp_path / f"{name}.inprogress").write_bytes(small_log().bytes())
    first, second = locate([tmp_path])
    (tmp_path / "app-1.inprogress").rename(tmp_path / "app-1").write_bytes(
        small_log().end().bytes()
    )
    assert peek(first).status is InputStatus.COMPLETE
    assert read_logs([first, second]).inputs["status"].tolist() == ["complete", "in_progress"]
    (tmp_path / "app-1").unlink()
    assert peek(first).message == "it cannot be opened: it does not exist"


def test_a_whole_last_line_needs_no_newline(tmp_path: Path) -> None:
    (tmp_path / "app-1").write_bytes(small_log().end().bytes()[:-1])
    row = only_input(read_logs([tmp_path / "app-1"]))
    assert (row["status"], row["malformed_lines"], row["message"]) == ("complete", 0, "")


def test_malformed_lines_in_the_middle_truncate_but_the_rest_is_read(tmp_path: Path) -> None:
    log = small_log(3)
    log.lines[6:6] = [b"rubbish", b"{}", b"17", b'{"Event":17}', log.lines[6][:200]]
    row = only_input(read(log.end(), tmp_path))
    assert (row["status"], row["malformed_lines"], row["tasks"]) == ("truncated", 5, 3)
    assert "5 lines" in row["message"]


def test_what_is_no_event_log_fails_and_is_not_quoted(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_text("GET /index.html password=hunter2\n" * 100_000)
    row = only_input(read_logs([path]))
    assert row["status"] == "failed"
    assert "not a Spark event log" in row["message"]
    assert "index" not in row["message"]
    assert "spark.eventLog.dir" in row["message"]
    assert "hunter2" not in row["message"]
    assert (row["events"], row["app"]) == (0, -1)


@pytest.mark.parametrize("data", [b"", b"\n\n", b"\x00\xff\x93" * 5000, b"{" * 100, b"[]\n" * 999])
def test_rubbish_fails_in_one_sentence(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "rubbish").write_bytes(data)
    tables = read_logs([tmp_path / "rubbish"])
    row = only_input(tables)
    assert row["status"] == "failed"
    assert row["message"]
    assert "\n" not in row["message"]
    assert len(tables.applications) == len(tables.tasks) == 0


def test_a_missing_path_is_a_failed_input(tmp_path: Path) -> None:
    row = only_input(read_logs([tmp_path / "nowhere"]))
    assert row["status"] == "failed"


# -- several logs --------------------------------------------------------------------------------


@pytest.mark.slow
def test_several_processes_read_the_same_as_one(tmp_path: Path) -> None:
    for number in range(5):
        log = SyntheticLog(f"app-{number}").app().executor("1", f"h{number % 2}")
        log.job(0, [0]).stage(0).task(0, host=f"h{number % 2}").end()
        log.write(tmp_path / f"app-{number}")
    (tmp_path / "rubbish").write_bytes(b"no log")
    paths = [*(tmp_path / f"app-{number}" for number in range(5)), tmp_path / "rubbish"]
    seen: list[ReadProgress] = []
    one = read_logs(paths, processes=1)
    several = read_logs(paths, processes=2, progress=seen.append)
    assert texts(one.inputs, "status") == ["complete"] * 5 + ["failed"]
    for name, frame in one:
        assert frame.equals(getattr(several, name)), name
    assert seen[-1].read_bytes == seen[-1].total_bytes > 0


def test_a_process_that_dies_costs_only_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "RUN", "import os; os._exit(7)")
    for number in range(3):
        SyntheticLog(f"app-{number}").app().end().write(tmp_path / f"app-{number}")
    tables = read_logs([tmp_path / f"app-{number}" for number in range(3)], processes=2)
    assert texts(tables.inputs, "status") == ["failed"] * 3
    assert all("ended with code 7" in message for message in texts(tables.inputs, "message"))


def test_hosts_are_shared_by_name_and_applications_stay_apart(tmp_path: Path) -> None:
    first = SyntheticLog("app-1").app().executor("1", "a").executor("2", "b")
    first.job(0, [0]).stage(0).task(0, host="a").task(1, host="b", executor="2").end()
    second = SyntheticLog("app-1").app().executor("1", "b").job(0, [0]).stage(0)
    second.task(0, host="b", accumulables=[sql_update(1, "scan time", 7)]).end()
    names = ("application_1700000000000_0001_1", "application_1700000000000_0001_2")
    paths = [log.write(tmp_path / name) for log, name in zip((first, second), names, strict=True)]
    tables = read_logs(paths, processes=1)
    assert texts(tables.hosts, "host") == ["a", "b"]
    assert tables.tasks["host"].tolist() == [0, 1, 1]
    assert tables.tasks["app"].tolist() == [0, 0, 1]
    assert tables.tasks["stage"].tolist() == [0, 0, 1]
    assert tables.tasks["executor"].tolist() == [0, 1, 2]
    assert tables.stages["job"].tolist() == [0, 1]
    assert tables.inputs["app"].tolist() == [0, 1]
    assert texts(tables.applications, "attempt_id") == ["1", "2"]
