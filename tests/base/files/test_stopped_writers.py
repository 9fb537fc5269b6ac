"""A process that is stopped while it writes leaves nothing, at the latest after the next run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from iqcar.base.files.derived import LEFT_S, write_derived
from tests.support.contended_log import contended_log

TIMEOUT_S = 300
WRITES = """
import os, signal, sys
from iqcar.base.files.derived import write_derived
def content():
    yield b"half"
    {}
    yield b"whole"
write_derived(sys.argv[1], content())
"""
STOPPED = """
import os, signal, sys
from iqcar.apps.cli.main import main
event, name = sys.argv.pop(1), sys.argv.pop(1)
def stop(what, args):
    if what == event and name in str(args[0]):
        os.kill(os.getpid(), signal.SIGTERM)
sys.addaudithook(stop)
main()
"""
"""Runs a command that is told to end just before it opens or renames a certain file."""


def writer(target: Path, between: str) -> subprocess.Popen[bytes]:
    """Start a process that does something between the halves of a file."""
    words = [sys.executable, "-c", WRITES.format(between), str(target)]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def left_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob(".*") if path.is_file()]


def make_old(path: Path) -> None:
    then = path.stat().st_mtime - LEFT_S - 60
    os.utime(path, (then, then))


def test_what_a_killed_process_left_goes_when_the_next_one_writes_there(tmp_path: Path) -> None:
    assert writer(tmp_path / "x", "os.kill(os.getpid(), signal.SIGKILL)").wait(TIMEOUT_S) == -9
    (left,) = left_in(tmp_path)
    write_derived(tmp_path / "x", "new")
    assert left.exists()
    make_old(left)
    write_derived(tmp_path / "x", "newer")
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_what_another_process_still_writes_stays(tmp_path: Path) -> None:
    process = writer(tmp_path / "x", 'print("half", flush=True); sys.stdin.read()')
    assert process.stdout is not None
    process.stdout.readline()
    (half,) = left_in(tmp_path)
    make_old(half)
    write_derived(tmp_path / "y", "y")
    assert half.exists()
    process.communicate(timeout=TIMEOUT_S)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "x": "halfwhole",
        "y": "y",
    }


def test_files_of_like_names_stay(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_text("mine")
    (tmp_path / ".iqcar-0123456789abcdef").symlink_to(mine)
    (tmp_path / ".iqcar-0123456789abcde0").mkdir()
    for name in (".iqcar-notes", "x.iqcar-0123456789abcdef", ".iqcar-0123456789abcdef0"):
        (tmp_path / name).write_text(name)
        make_old(tmp_path / name)
    make_old(mine)
    before = sorted(tmp_path.iterdir())
    write_derived(mine, "other")
    assert sorted(tmp_path.iterdir()) == before


COMMANDS = {
    "report": ("report", "{log}", "--out", "{out}/result"),
    "analyze": ("analyze", "{log}", "--json", "{out}/result"),
    "rules": ("analyze", "{log}", "--rules", "{out}/result"),
    "compare": ("compare", "{log}", "{log}", "--out", "{out}/result"),
    "sample": ("sample", "--out", "{out}/result", "--for", "1s"),
    "history": ("history", "add", "{out}/store", "{log}", "--processes", "1"),
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return {"log": str(contended_log().write(tmp_path_factory.mktemp("inputs") / "app-1"))}


def stopped(event: str, name: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command that gets SIGTERM before an event with a file of this name."""
    words = (sys.executable, "-c", STOPPED, event, name, *words)
    return subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


@pytest.mark.long
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_is_told_to_end_leaves_no_file(
    command: str, inputs: dict[str, str], tmp_path: Path
) -> None:
    given = [word.format(out=tmp_path, **inputs) for word in COMMANDS[command]]
    done = stopped("os.rename", str(tmp_path), *given)
    assert (done.returncode, "Traceback" in done.stderr) == (143, False), done.stderr
    assert left_in(tmp_path) == []
    assert not (tmp_path / "result").exists()


@pytest.mark.long
@pytest.mark.parametrize("command", ["report", "history"])
def test_a_command_that_is_told_to_end_while_it_reads_ends_at_once(
    command: str, inputs: dict[str, str], tmp_path: Path
) -> None:
    given = [word.format(out=tmp_path, **inputs) for word in COMMANDS[command]]
    done = stopped("open", inputs["log"], *given)
    assert (done.returncode, done.stderr.count("\n")) == (143, 0), done.stderr
    assert left_in(tmp_path) == []
    assert not (tmp_path / "result").exists()


@pytest.mark.long
def test_an_addition_that_was_told_to_end_can_be_made_again(
    inputs: dict[str, str], tmp_path: Path
) -> None:
    given = [word.format(out=tmp_path, **inputs) for word in COMMANDS["history"]]
    assert stopped("os.rename", "/blame/", *given).returncode == 143
    done = stopped("never", "", *given)
    assert done.returncode == 0, done.stderr
    assert "1 application" in done.stdout and "set aside" not in done.stderr
