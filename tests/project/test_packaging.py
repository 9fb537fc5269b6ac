"""What is shipped: the wheel's content, its version, and a project that names no machine."""

from __future__ import annotations

import ast
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import iqcar

REPO = Path(__file__).resolve().parents[2]

JAR = "iqcar/data/iqcar-listener.jar"

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
    page = {
        path.relative_to(REPO / "analyzer").as_posix()
        for kind in ("j2", "css", "js")
        for path in (REPO / "analyzer" / "iqcar").rglob(f"*.{kind}")
    }
    assert any(name.endswith("page.html.j2") for name in page)
    rules = {f"iqcar/data/rules/{path.name}" for path in (REPO / "rules").iterdir()}
    assert {path.rpartition(".")[2] for path in rules} == {"json", "md"}
    data = {f"iqcar/data/iqcar_{name}" for name in ("sampler.py", "secrets.json")}
    assert modules | page | rules | data | {"iqcar/py.typed"} <= shipped


def test_the_wheel_carries_the_plugin_where_it_can_be_built(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        shipped = JAR in archive.namelist()
        if shipped:
            with zipfile.ZipFile(io.BytesIO(archive.read(JAR))) as jar:
                assert "org/iqcar/spark/IqcarPlugin.class" in jar.namelist()
                assert not [name for name in jar.namelist() if "Test" in name]
    assert shipped or not shutil.which("mvn")


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """What a wheel is built from, without a jar."""
    copy = tmp_path / "iqcar"
    copy.mkdir()
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        shutil.copy(REPO / name, copy / name)
    for name in ("analyzer", "rules", "listener/src"):
        shutil.copytree(REPO / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(REPO / "listener" / "pom.xml", copy / "listener" / "pom.xml")
    return copy


def built_without_maven(sources: Path, target: str, tmp_path: Path) -> Path:
    """The wheel or sdist, as hatchling makes it where mvn is not on PATH."""
    out = tmp_path / "out"
    program = f"import hatchling.build as b; print(b.build_{target}({str(out)!r}))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=sources,
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = out.iterdir()
    return built


def test_without_maven_the_wheel_is_made_without_the_plugin(sources: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(built_without_maven(sources, "wheel", tmp_path)) as archive:
        assert "iqcar/cli/main.py" in archive.namelist()
        assert JAR not in archive.namelist()


def test_a_jar_that_is_newer_than_its_sources_is_shipped_without_maven(
    sources: Path, tmp_path: Path
) -> None:
    jar = sources / "listener" / "target" / "iqcar-listener.jar"
    jar.parent.mkdir()
    jar.write_bytes(b"a jar")
    with zipfile.ZipFile(built_without_maven(sources, "wheel", tmp_path)) as archive:
        assert archive.read(JAR) == b"a jar"


def test_a_jar_older_than_a_source_is_not_shipped(sources: Path, tmp_path: Path) -> None:
    jar = sources / "listener" / "target" / "iqcar-listener.jar"
    jar.parent.mkdir()
    jar.write_bytes(b"a jar")
    os.utime(jar, (0, 0))
    with zipfile.ZipFile(built_without_maven(sources, "wheel", tmp_path)) as archive:
        assert JAR not in archive.namelist()


def test_the_sdist_holds_all_that_a_wheel_is_made_of(sources: Path, tmp_path: Path) -> None:
    jar = sources / "listener" / "target" / "iqcar-listener.jar"
    jar.parent.mkdir()
    jar.write_bytes(b"a jar")
    with tarfile.open(built_without_maven(sources, "sdist", tmp_path)) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    java = {p.relative_to(REPO).as_posix() for p in (REPO / "listener/src").rglob("*.java")}
    assert java | {"listener/pom.xml", "listener/target/iqcar-listener.jar"} <= names
    assert {"hatch_build.py", "analyzer/iqcar/cli/main.py", "rules/advice.json"} <= names


def test_the_plugin_has_the_version_of_the_package() -> None:
    pom = (REPO / "listener" / "pom.xml").read_text(encoding="utf-8")
    found = re.search(r"<artifactId>iqcar-listener</artifactId>\s*<version>(.*?)</version>", pom)
    assert found and found.group(1) == iqcar.__version__.partition(".dev")[0]


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


def test_compiled_code_multiplies_no_matrices() -> None:
    """Numba does that with SciPy, which is not among what iqcar needs."""
    found = []
    for file in sorted((REPO / "analyzer" / "iqcar").rglob("*.py")):
        for function in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(function, ast.FunctionDef):
                continue
            if not any("njit" in ast.dump(decorator) for decorator in function.decorator_list):
                continue
            for node in ast.walk(function):
                multiplies = isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult)
                linear = isinstance(node, ast.Attribute) and node.attr in ("dot", "linalg", "vdot")
                if multiplies or linear:
                    found.append(f"{file.name}:{node.lineno}: {function.name}")
    assert found == []
