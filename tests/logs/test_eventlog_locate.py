"""Where event logs lie, in what layouts, and in what state they are."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from iqcar.base import workers
from iqcar.enums import InputStatus
from iqcar.logs import ReadProgress, read_logs
from iqcar.logs.find import locate as finder
from iqcar.logs.find.layouts import arrange
from iqcar.logs.find.locate import EventLog, Unreadable, locate
from iqcar.logs.log_summary import peek
from iqcar.tables import texts
from iqcar_lab.clusters.event_log import SyntheticLog, sql_update
from tests.support.log_places import APP, LOG, logs, names, parts, text, unreadable, write
from tests.support.small_log import only_input, read, small_log

# One file


def test_a_file_is_one_log(tmp_path: Path) -> None:
    write(tmp_path, APP)
    (log,) = logs([tmp_path / APP])
    assert log.path == str(tmp_path / APP)
    assert (log.in_progress_hint, log.attempt_id, log.problem) == (False, "", "")
    assert log.size_bytes == len(LOG)


@pytest.mark.parametrize(
    ("name", "attempt", "in_progress"),
    [
        ("application_1713000000000_0001", "", False),
        ("application_1713000000000_0001_2", "2", False),
        ("application_1713000000000_0001_1.zstd", "1", False),
        ("application_1713000000000_0001_1.lz4.inprogress", "1", True),
        ("app-20161116163331-0000", "", False),
        ("app-20161116163331-0000_3.snappy", "3", False),
        ("local-1642039451826.inprogress", "", True),
        ("spark-cc4d115f011443d787f03a71a476a745", "", False),
        ("spark-cc4d115f011443d787f03a71a476a745_1", "1", False),
        ("attempt_1_eventlog.zstd", "", False),
        ("my_log_2", "", False),
    ],
)
def test_attempt_and_progress_are_told_from_the_names_spark_gives(
    tmp_path: Path, name: str, attempt: str, in_progress: bool
) -> None:
    write(tmp_path, name)
    (log,) = logs([tmp_path])
    assert (log.attempt_id, log.in_progress_hint) == (attempt, in_progress)


def test_a_file_that_is_named_is_taken_whatever_it_holds(tmp_path: Path) -> None:
    write(tmp_path, "notes.txt", ".hidden", content=b"no log")
    assert names([tmp_path / "notes.txt", tmp_path / ".hidden"]) == ["notes.txt", ".hidden"]


@pytest.mark.parametrize("path", ["missing", "missing/further", "~/surely/not/there", "x" * 5000])
def test_a_path_that_is_not_there_is_unreadable(tmp_path: Path, path: str) -> None:
    message = unreadable([path if path[0] == "~" else tmp_path / path])
    assert "does not exist" in message or "too long" in message


def test_odd_paths_are_unreadable(tmp_path: Path) -> None:
    assert "empty" in unreadable([""])
    assert unreadable(["a\0b"])
    assert unreadable(["\ud800"])
    assert "neither a file nor a folder" in unreadable(["/dev/zero"])
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    assert "link to nothing" in unreadable([tmp_path / "dangling"])
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    assert unreadable([tmp_path / "circle"])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / APP)
    assert "neither" in unreadable([tmp_path / APP])
    assert "no event log" in unreadable([tmp_path])


AS_NOBODY = """
import os, sys
from iqcar.logs.find.locate import locate
locate(sys.argv[1:])  # imports everything while that is allowed
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
for one in locate(sys.argv[1:]):
    print(type(one).__name__, os.path.basename(one.path), getattr(one, "message", ""), sep="|")
"""


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that other users can read, unlike pytest's."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.skipif(not hasattr(os, "setuid"), reason="the system has no user ids")
def test_what_permission_is_denied_to_is_unreadable_and_the_rest_is_read(
    public_folder: Path,
) -> None:
    write(public_folder, "closed", "shut/log", "open")
    (public_folder / "closed").chmod(0)
    (public_folder / "shut").chmod(0)
    done = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, str(public_folder), str(public_folder / "closed")],
        capture_output=True,
        text=True,
        check=False,
    )
    (public_folder / "shut").chmod(0o755)
    assert done.returncode == 0, done.stderr
    denied = "it cannot be read: permission denied"
    assert sorted(done.stdout.splitlines()) == [
        "EventLog|open|",
        f"Unreadable|closed|{denied}",
        f"Unreadable|shut|{denied}",
    ]


# Folders


def test_a_folder_holds_every_log_below_it_and_nothing_else(tmp_path: Path) -> None:
    write(tmp_path, APP, "a/b/renamed-log", "c/local-1.zstd")
    write(tmp_path, "README.md", content=b'# Logs\n\nThey hold\nlines like\n{"Event":"x"}\n')
    write(tmp_path, "data.json", content=b'{"event": "Event"}\n')
    write(tmp_path, "rubbish.bin", content=bytes(range(256)) * 300)
    write(tmp_path, "empty", content=b"")
    write(tmp_path, f".{APP}.crc", f"{APP}.crc", ".staging/log", "_SUCCESS.md5")
    assert names([tmp_path]) == [APP, "renamed-log", "local-1.zstd"]


@pytest.mark.parametrize(
    "content",
    [
        LOG,
        b"\xef\xbb\xbf" + LOG,
        b'\n  { "Event" : "SparkListenerLogStart" }',
        b"a broken line\n" + LOG,
        gzip.compress(LOG, mtime=0),
        zstandard.ZstdCompressor().compress(LOG * 50_000),
        zstandard.ZstdCompressor().compress(LOG * 50_000)[:-3],
        b'{"Timestamp":1,"Event":"SparkListenerApplicationEnd"}',
    ],
)
def test_a_log_is_told_by_its_content(tmp_path: Path, content: bytes) -> None:
    write(tmp_path, "whatever.txt", content=content)
    assert names([tmp_path]) == ["whatever.txt"]


def test_an_empty_file_named_like_a_log_is_not_passed_over(tmp_path: Path) -> None:
    write(tmp_path, f"{APP}.inprogress", content=b"")
    assert names([tmp_path]) == [f"{APP}.inprogress"]


def test_a_folder_without_logs_says_so_once(tmp_path: Path) -> None:
    assert "no event log" in unreadable([tmp_path])
    write(tmp_path, "README", content=b"nothing")
    assert "no event log" in unreadable([tmp_path, tmp_path])


def test_folders_are_searched_to_a_depth(tmp_path: Path) -> None:
    deep = "/".join("d" * finder.MAX_DEPTH)
    write(tmp_path, f"{deep}/log", f"{deep}/d/below")
    assert names([tmp_path]) == ["log"]


def test_links_are_followed_but_not_in_circles(tmp_path: Path) -> None:
    write(tmp_path, "real/log")
    (tmp_path / "real" / "up").symlink_to(tmp_path)
    (tmp_path / "linked").symlink_to(tmp_path / "real")
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    (tmp_path / "other").symlink_to(tmp_path / "real" / "log")
    assert len(logs([tmp_path])) == 1
    assert len(logs([tmp_path / "other", tmp_path / "real"])) == 1


def test_a_folder_of_too_many_files_is_read_in_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finder, "MAX_FILES", 3)
    write(tmp_path, *(f"log-{number}" for number in range(5)))
    found = locate([tmp_path])
    assert [type(one) for one in found] == [Unreadable, EventLog, EventLog, EventLog]


def test_what_is_named_twice_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "a/log", "b/log")
    monkeypatch.chdir(tmp_path)
    one = tmp_path / "a" / "log"
    assert len(logs([one, one, "a/log", "./a/../a/log", tmp_path / "a"])) == 1
    assert [log.path for log in logs(["a/log", tmp_path])] == ["a/log", str(tmp_path / "b/log")]
    assert [log.path for log in logs(["."])] == ["a/log", "b/log"]
    os.link(one, tmp_path / "same")
    assert len(logs([tmp_path])) == 2


def test_a_file_replaced_by_its_finished_name_is_read_once(tmp_path: Path) -> None:
    write(tmp_path, APP, f"{APP}.inprogress", f"{APP}_2.inprogress")
    assert names([tmp_path]) == [APP, f"{APP}_2.inprogress"]


def test_attempts_of_an_application_stay_apart(tmp_path: Path) -> None:
    write(tmp_path, f"{APP}_1", f"{APP}_2")
    assert [log.attempt_id for log in logs([tmp_path])] == ["1", "2"]


# Patterns and URLs of local files


def test_a_pattern_takes_the_logs_it_matches(tmp_path: Path) -> None:
    write(tmp_path, "a.log", "b.log", "c.txt", "deep/er/d.log")
    write(tmp_path, "e.log", content=b"no log")
    assert names([f"{tmp_path}/*.log"]) == ["a.log", "b.log"]
    assert names([f"{tmp_path}/**/d.*"]) == ["d.log"]
    assert names([f"{tmp_path}/de*"]) == ["d.log"]
    assert "pattern" in unreadable([f"{tmp_path}/*.zip"])
    assert "no event log" in unreadable([f"{tmp_path}/e*"])


def test_a_file_whose_name_looks_like_a_pattern_is_found(tmp_path: Path) -> None:
    write(tmp_path, "log[1]*")
    assert names([tmp_path / "log[1]*"]) == ["log[1]*"]


@pytest.mark.parametrize("prefix", ["file:", "file://", "file://localhost", "FILE:"])
def test_a_file_url_is_a_local_path(tmp_path: Path, prefix: str) -> None:
    write(tmp_path, "my log")
    (log,) = logs([f"{prefix}{tmp_path}/my%20log"])
    assert log.path == str(tmp_path / "my log")


def test_home_is_spelt_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    write(tmp_path, "log")
    assert names(["~/log"]) == ["log"]


def test_a_name_that_is_no_valid_text_can_be_shown(tmp_path: Path) -> None:
    name = b"log-\xff"
    try:
        (Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name))).write_bytes(LOG)
    except OSError:
        pytest.skip("the file system takes only valid text")
    (log,) = logs([tmp_path])
    assert log.path.encode().endswith(b"log-?")
    assert text(log) == LOG


def test_real_logs_are_all_found(shared_logs: Path) -> None:
    found = {Path(log.path).name: log for log in logs([shared_logs])}
    assert set(found) == {path.name for path in shared_logs.iterdir()} - {"README.md"}
    assert len(found["eventlog_v2_local-1623876083964"].parts) == 2
    assert found["application_1713000000000_0001_2.zstd"].attempt_id == "2"


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
