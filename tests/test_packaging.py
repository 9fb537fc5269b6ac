"""What is shipped: the wheel's content, its version, and a project that names no machine."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import iqcar

REPO = Path(__file__).resolve().parent.parent

MACHINE_PATH = re.compile(r"(?<![\w.~:/])/(?:root|work|home/\w+|Users/\w+|tmp/(?!spark)\w+)\b")
"""Folders of one person's machine; Spark's own default `/tmp/spark-events` is everybody's."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as the build backend in pyproject.toml makes it; nothing is downloaded."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
    done = subprocess.run(
        [*build, "--wheel-dir", str(folder), str(REPO)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_ships_the_package_and_its_data(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        shipped = set(archive.namelist())
    modules = {
        path.relative_to(REPO / "analyzer").as_posix()
        for path in (REPO / "analyzer" / "iqcar").rglob("*.py")
    }
    rules = {f"iqcar/data/rules/{path.name}" for path in (REPO / "rules").glob("*.json")}
    assert rules
    assert modules | rules | {"iqcar/py.typed"} <= shipped


def test_the_wheel_ships_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        shipped = archive.namelist()
    assert {name.split("/")[0] for name in shipped} == {
        "iqcar",
        f"iqcar-{iqcar.__version__}.dist-info",
    }
    assert [name for name in shipped if "test" in name or "__pycache__" in name] == []


def test_the_wheel_says_who_it_is(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        info = f"iqcar-{iqcar.__version__}.dist-info"
        metadata = Parser().parsestr(archive.read(f"{info}/METADATA").decode())
        entry_points = archive.read(f"{info}/entry_points.txt").decode()
        assert f"{info}/licenses/LICENSE" in archive.namelist()
    assert metadata["Version"] == iqcar.__version__
    assert metadata["Requires-Python"] == ">=3.10"
    assert "iqcar = iqcar.cli.main:main" in entry_points


def test_the_version_in_the_changelog_is_the_package_s() -> None:
    changelog = (REPO / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (\S+)", changelog, re.MULTILINE)
    assert headings[0] in ("Unreleased", iqcar.__version__)


def test_no_file_of_the_project_names_a_path_of_somebody_s_machine() -> None:
    listed = subprocess.run(
        ["git", "-C", str(REPO), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        text=True,
    )
    if listed.returncode != 0 or not (REPO / ".git").exists():
        pytest.skip("not a git checkout")
    found = []
    for name in filter(None, listed.stdout.split("\0")):
        content = (REPO / name).read_bytes() if (REPO / name).is_file() else b""
        if b"\0" in content:
            continue
        for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), 1):
            if MACHINE_PATH.search(line):
                found.append(f"{name}:{number}: {line.strip()[:80]}")
    assert found == []


ROOT = "/"  # kept apart, so that this file passes its own check


@pytest.mark.parametrize("planted", ["root/x", "home/ann/log", "work/a", "tmp/scratch"])
def test_a_machine_path_is_recognised(planted: str) -> None:
    assert MACHINE_PATH.search(f"read('{ROOT}{planted}')")


@pytest.mark.parametrize("fine", ["tmp/spark-events", "logs", "workflow", "roots", "home"])
def test_everybody_s_path_is_no_machine_path(fine: str) -> None:
    assert not MACHINE_PATH.search(f"read('{ROOT}{fine}')")


@pytest.mark.parametrize("fine", ["a/root", "~/work/x", "hdfs:///home/x", "s3://logs/home/x"])
def test_a_path_below_something_else_is_no_machine_path(fine: str) -> None:
    assert not MACHINE_PATH.search(fine)
