"""Finding event logs among local files and folders, and what is not one."""

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

from iqcar.logs.find import locate as finder
from iqcar.logs.find.locate import EventLog, Unreadable, locate
from tests.support.log_places import APP, LOG, logs, names, text, unreadable, write

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
