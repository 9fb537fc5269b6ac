"""The scripts: documented, safe to start from anywhere, and clear when they cannot work."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.benchmarks import MISSED
from tests.conftest import REPO
from tests.project.test_layers import FLOW

SCRIPTS = sorted(
    path for path in (REPO / "scripts").iterdir() if path.is_file() and not path.suffix
)


def run(
    script: Path, *arguments: str, cwd: Path, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a script with nothing of this environment but what is given, or all of it."""
    command = ["bash", str(script), *arguments]
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=120)


def stand_in(folder: Path, name: str, body: str) -> None:
    """An executable of that name which does `body`."""
    (folder / name).write_text(f"#!/bin/sh\n{body}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A PATH with the basic tools that setup uses, and neither Python nor Java."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "cat", "cksum", "dirname", "head", "sed"):
        (tools / name).symlink_to(str(shutil.which(name)))
    return tools


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """What setup reads of the project, without a .venv."""
    copy = tmp_path / "with a space" / "iqcar"
    for name in ("scripts/setup", "pyproject.toml", "analyzer/iqcar/version.py"):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPO / name, copy / name)
    (copy / "build_kernels.py").write_text("# all are compiled\n")
    return copy


@pytest.mark.parametrize("script", [*SCRIPTS, REPO / ".ci" / "run"], ids=lambda path: path.name)
def test_a_script_is_executable_and_says_what_it_is_for(script: Path) -> None:
    first, second = script.read_text(encoding="utf-8").splitlines()[:2]
    assert first in ("#!/usr/bin/env bash", "#!/bin/sh")
    assert second.startswith("# ") and len(second) > 20
    assert os.access(script, os.X_OK)
    assert subprocess.run(["bash", "-n", str(script)]).returncode == 0


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_is_documented(script: Path) -> None:
    assert f"`scripts/{script.name}`" in (REPO / "docs/development.md").read_text("utf-8")


def test_the_documented_flow_is_the_enforced_one() -> None:
    documented = " ".join((REPO / "docs/development.md").read_text("utf-8").split())
    assert FLOW in documented


def test_setup_without_a_python_says_so_in_one_line(clone: Path, bare: Path) -> None:
    done = run(clone / "scripts/setup", cwd=bare, env={"PATH": str(bare)})
    assert done.returncode == 1
    assert done.stderr.startswith("setup: no Python 3.10 or newer")
    assert done.stderr.count("\n") == 1


@pytest.mark.long
def test_setup_passes_over_a_python_that_is_too_old_or_cannot_make_a_venv(
    clone: Path, bare: Path
) -> None:
    stand_in(bare, "python3", "exit 1")
    stand_in(bare, "python3.12", f'exec "{sys.executable}" "$@"')
    environment = {"PATH": str(bare), "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull}
    done = run(clone / "scripts/setup", cwd=bare, env=environment)
    assert f"making .venv with {version()} ({bare}/python3.12)" in done.stdout
    assert done.returncode != 0, "nothing can be installed here, and setup must not hide it"
    assert not (clone / ".venv/made_for").exists()


def version() -> str:
    return "Python " + ".".join(str(part) for part in sys.version_info[:3])


@pytest.mark.parametrize(
    ("java", "found"),
    [
        (None, "none"),
        ("1.8.0_392", "8"),
        ("11.0.21", "11"),
    ],
)
def test_setup_names_a_java_that_is_missing_or_too_old(
    clone: Path, bare: Path, java: str | None, found: str
) -> None:
    set_up_already(clone)
    if java:
        stand_in(bare, "java", f"""echo 'openjdk version "{java}" 2023-10-17' >&2""")
    setup = clone / "scripts/setup"
    done = run(setup, cwd=bare, env={"PATH": str(bare)})
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith(f"setup: no Java 17 or newer (found: {found};")
    assert run(setup, "--with-java", cwd=bare, env={"PATH": str(bare)}).returncode == 1


@pytest.mark.parametrize("java", ["17", "17.0.15", "21.0.2", "25"])
def test_setup_is_silent_when_nothing_is_to_be_done(clone: Path, bare: Path, java: str) -> None:
    set_up_already(clone)
    home = bare.parent / "jdk"
    (home / "bin").mkdir(parents=True)
    stand_in(home / "bin", "java", f"""echo 'openjdk version "{java}" 2025-04-15' >&2""")
    environment = {"PATH": str(bare), "JAVA_HOME": str(home)}
    done = run(clone / "scripts/setup", "--with-java", cwd=bare, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_setup_asks_for_mvn_once_there_is_something_to_build(clone: Path, bare: Path) -> None:
    set_up_already(clone)
    stand_in(bare, "java", """echo 'openjdk version "21"' >&2""")
    (clone / "listener").mkdir()
    (clone / "listener/pom.xml").write_text("<project/>")
    done = run(clone / "scripts/setup", cwd=bare, env={"PATH": str(bare)})
    assert (done.returncode, done.stderr.split(":")[:2]) == (0, ["setup", " no mvn"])


STAND_IN_MVN = """echo "$@" >>calls
case "$*" in *-o*) exit 1 ;; esac # as with an empty ~/.m2
mkdir -p target && : >target/iqcar-listener.jar"""


@pytest.fixture
def with_listener(clone: Path, bare: Path) -> Path:
    """A finished setup with a listener to build, and the tools that building it takes."""
    set_up_already(clone)
    for name in ("find", "mkdir", "rm", "sort", "xargs"):
        (bare / name).symlink_to(str(shutil.which(name)))
    stand_in(bare, "java", """echo 'openjdk version "21"' >&2""")
    stand_in(bare, "mvn", STAND_IN_MVN)
    (clone / "listener/src").mkdir(parents=True)
    (clone / "listener/pom.xml").write_text("<project/>")
    (clone / "docs").mkdir()
    (clone / "docs/listener.md").touch()
    shutil.copy(REPO / "scripts/build_listener", clone / "scripts/build_listener")
    return clone


def test_setup_builds_the_listener_when_its_sources_changed(
    with_listener: Path, bare: Path
) -> None:
    def built() -> bool:
        done = run(with_listener / "scripts/setup", cwd=bare, env={"PATH": str(bare)})
        assert (done.returncode, done.stderr) == (0, "")
        return "Wrote" in done.stdout

    assert [built(), built()] == [True, False]
    (with_listener / "listener/src/New.java").write_text("class New {}")
    assert [built(), built()] == [True, False]
    (with_listener / "listener/src/New.java").unlink()
    assert [built(), built()] == [True, False]
    (with_listener / "listener/target/iqcar-listener.jar").unlink()
    assert [built(), built()] == [True, False]


def test_the_listener_is_built_offline_first_and_verified_only_once(
    with_listener: Path, bare: Path
) -> None:
    build = with_listener / "scripts/build_listener"
    for options in (["--fast"], ["--if-changed"], ["--if-changed"], ["--fast", "--if-changed"], []):
        assert run(build, *options, cwd=bare, env={"PATH": str(bare)}).returncode == 0
    goals = [call.split() for call in (with_listener / "listener/calls").read_text().splitlines()]
    assert ["-o" in goal for goal in goals] == [True, False] * 3
    assert [goal[-1] for goal in goals[1::2]] == ["-DskipTests", "verify", "verify"]


def test_a_listener_that_cannot_be_built_does_not_stop_the_analyzer(
    with_listener: Path, bare: Path
) -> None:
    stand_in(bare, "mvn", "echo 'no such host' >&2; exit 1")
    done = run(with_listener / "scripts/setup", cwd=bare, env={"PATH": str(bare)})
    assert done.returncode == 0
    assert done.stderr.splitlines()[0] == "no such host"
    assert done.stderr.splitlines()[1].startswith("setup: the listener was not built, see above")


def test_sparks_without_a_line_it_knows_lists_the_lines(tmp_path: Path) -> None:
    asked_nothing = run(REPO / "scripts/sparks", cwd=tmp_path)
    asked_old = run(REPO / "scripts/sparks", "2.4", cwd=tmp_path)
    for done in (asked_nothing, asked_old):
        assert (done.returncode, done.stdout) == (2, "")
        assert "3.3 3.4 3.5 4.0 4.1 4.2 4.3" in done.stderr


def set_up_already(clone: Path) -> None:
    """Leave what a finished setup leaves: a working .venv and what it was made for."""
    (clone / ".venv/bin").mkdir(parents=True)
    stand_in(clone / ".venv/bin", "python", f'exec "{sys.executable}" "$@"')
    files = [clone / "pyproject.toml", clone / "analyzer/iqcar/version.py"]
    content = b"".join(file.read_bytes() for file in files)
    checksum = subprocess.run(["cksum"], input=content, capture_output=True).stdout.decode()
    (clone / ".venv/made_for").write_text(f"{clone.resolve()} {checksum}")


def test_bench_without_a_known_name_lists_the_names(tmp_path: Path) -> None:
    done = run(REPO / "scripts/bench", "nothing-like-it", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    names = sorted(path.stem.removeprefix("bench_") for path in REPO.glob("scripts/bench_*.py"))
    usage = done.stderr.splitlines()[0]
    assert usage == f"usage: scripts/bench {'|'.join(names)} [--quick | --full]"
    assert f"Ends with {MISSED} if" in done.stderr


def test_demo_help_lists_the_options_and_an_unknown_one_is_refused(tmp_path: Path) -> None:
    shown = run(REPO / "scripts/demo", "--help", cwd=tmp_path).stdout
    documented = (REPO / "docs/demo.md").read_text("utf-8")
    for option in ("--scale", "--out", "--keep", "--open"):
        assert option in shown and f"`{option}" in documented
    refused = run(REPO / "scripts/demo", "--scael", "1", cwd=tmp_path)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "unknown option --scael" in refused.stderr
