"""Files of results: whole or not there, never through a link, and streams where streams are."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from iqcar.base.files.derived import open_derived, open_to_append, write_derived
from tests.support.command import iqcar, iqcar_lab
from tests.support.small_log import small_log

LOST, KEPT = "\udcff", "kept"


def in_shell(command: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a real command in a shell, where it is `iqcar`, and arguments are `$1` and so on."""
    shell = f'iqcar() {{ {sys.executable} -m iqcar "$@"; }}\n{command}'
    return subprocess.run(
        ["bash", "-c", shell, "bash", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return small_log().write(tmp_path / "app-1")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    mine = tmp_path / "mine"
    mine.write_text(KEPT)
    return mine


@pytest.mark.slow
@pytest.mark.parametrize("name", ["report.html", "report.html.partial"])
def test_a_command_writes_through_no_link_that_was_laid(
    log: Path, out: Path, mine: Path, name: str
) -> None:
    (out / name).symlink_to(mine)
    done = iqcar("report", log, "--out", out / "report.html", "--force")
    assert done.returncode == 0, done.stderr
    assert mine.read_text() == KEPT
    assert not (out / "report.html").is_symlink()
    assert (out / "report.html").stat().st_size > 1000


def test_a_link_to_nothing_counts_as_there(log: Path, out: Path) -> None:
    (out / "rules.json").symlink_to(out / "nothing")
    done = iqcar("analyze", log, "--rules", out / "rules.json")
    assert done.returncode == 2
    assert "exists already" in done.stderr
    assert not (out / "nothing").exists()


def test_samples_go_through_no_link_that_was_laid(out: Path, mine: Path) -> None:
    (out / "samples").symlink_to(mine)
    words = ("sample", "--out", out / "samples", "--period", "100ms", "--for", "300ms")
    done = iqcar(*words, "--force")
    assert done.returncode == 0, done.stderr
    assert mine.read_text() == KEPT
    assert (out / "samples").read_text().count("\n") >= 1
    assert not (out / "samples").is_symlink()


def test_what_was_injected_is_appended_to_no_link(out: Path, mine: Path) -> None:
    log = out / "truth"
    log.symlink_to(mine)
    done = iqcar_lab("inject", "cpu", "--cores", 1, "--for", "100ms", "--log", log)
    assert done.returncode == 1, done.stderr
    assert "it is a link" in done.stderr
    assert mine.read_text() == KEPT


@pytest.mark.long
def test_standard_output_by_its_name_is_written_into(log: Path, out: Path) -> None:
    for command in (
        'iqcar queries "$1" --json /dev/stdout | cat',
        'iqcar queries "$1" --json /dev/stdout > "$2"; cat "$2"',
        'iqcar queries "$1" --json >(cat) | cat',
        'iqcar queries "$1" --json /dev/fd/3 3>&1 >/dev/null',
        'iqcar queries "$1" --json /proc/self/fd/3 3>&1 >/dev/null',
    ):
        done = in_shell(command, log, out / "file")
        shown = done.stdout[done.stdout.index("{\n") :] if "{" in done.stdout else ""
        assert json.loads(shown)["queries"], (command, done.stderr)


def test_what_is_appended_to_stays(log: Path, out: Path) -> None:
    (out / "file").write_text("before\n")
    in_shell('iqcar queries "$1" --json /dev/stdout >> "$2"', log, out / "file")
    assert (out / "file").read_text().startswith("before\n")
    assert (out / "file").read_text().rstrip().endswith("}")


def test_the_null_device_takes_in_what_is_written(log: Path) -> None:
    done = iqcar("queries", log, "--json", "/dev/null", "--force")
    assert done.returncode == 0, done.stderr
    assert stat.S_ISCHR(os.lstat("/dev/null").st_mode)


def test_a_named_pipe_of_ones_own_is_written_into(log: Path, out: Path) -> None:
    os.mkfifo(out / "pipe")
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append((out / "pipe").read_text()))
    reader.start()
    done = iqcar("queries", log, "--json", out / "pipe")
    assert done.returncode == 0, done.stderr
    reader.join(60)
    assert json.loads(read[0])["queries"]
    assert stat.S_ISFIFO((out / "pipe").lstat().st_mode)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_named_pipe_of_another_user_takes_in_nothing(out: Path) -> None:
    os.mkfifo(out / "pipe")
    os.chown(out / "pipe", 12345, 12345)
    with pytest.raises(OSError, match="no regular file"):
        write_derived(out / "pipe", "x")
    assert [one.name for one in out.iterdir()] == ["pipe"]


@pytest.mark.parametrize(
    "content", [f"é{LOST}", "é?".encode(), ["é", b"?"], (one for one in ("é", LOST))]
)
def test_text_bytes_and_chunks_of_both_are_written_alike(out: Path, content: object) -> None:
    write_derived(out / "x", content)  # type: ignore[arg-type]
    assert (out / "x").read_bytes() == "é?".encode()
    assert [one.name for one in out.iterdir()] == ["x"]


def test_a_failure_half_way_leaves_what_was_there(out: Path) -> None:
    def chunks() -> Iterator[str]:
        yield "half"
        raise KeyboardInterrupt

    (out / "x").write_text(KEPT)
    with pytest.raises(KeyboardInterrupt):
        write_derived(out / "x", chunks())
    assert (out / "x").read_text() == KEPT
    assert [one.name for one in out.iterdir()] == ["x"]


def test_permissions_are_those_of_a_new_file_or_of_the_one_replaced(out: Path) -> None:
    before = os.umask(0o027)
    try:
        write_derived(out / "new", "x")
        write_derived(out / "own", "x")
        (out / "own").chmod(0o600)
        write_derived(out / "own", "y")
        open_derived(out / "own").close()
        (out / "link").symlink_to(out / "own")
        write_derived(out / "link", "x")
    finally:
        os.umask(before)
    modes = {one.name: stat.S_IMODE(one.lstat().st_mode) for one in out.iterdir()}
    assert modes == {"new": 0o640, "own": 0o600, "link": 0o640}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_laid_open_by_another_user_does_not_make_the_result_open(out: Path) -> None:
    (out / "x").write_text("")
    (out / "x").chmod(0o666)
    os.chown(out / "x", 12345, 12345)
    write_derived(out / "x", "secret")
    assert stat.S_IMODE((out / "x").stat().st_mode) & 0o022 == 0
    assert (out / "x").stat().st_uid == os.geteuid()


def test_the_longest_name_there_is_can_be_written(out: Path) -> None:
    name = "x" * 255
    write_derived(out / name, "x")
    assert (out / name).read_text() == "x"


def test_a_folder_is_not_replaced(out: Path) -> None:
    for write in (lambda path: write_derived(path, "x"), open_derived, open_to_append):
        with pytest.raises(OSError):
            write(out)
    assert list(out.iterdir()) == []


def test_what_is_written_over_time_is_there_at_once(out: Path, mine: Path) -> None:
    (out / "x").symlink_to(mine)
    with open_derived(out / "x") as file:
        file.write(b"line\n")
        file.flush()
        assert (out / "x").read_text() == "line\n"
    assert mine.read_text() == KEPT
