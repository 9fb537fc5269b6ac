"""What is shipped: the wheel's content, its version, and a project that names no machine."""

from __future__ import annotations

import ast
import io
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import iqcar
from build_kernels import library_in
from scripts import release

REPO = Path(__file__).resolve().parents[2]

JAR = "iqcar/data/iqcar-listener.jar"

MACHINE_PATH = re.compile(r"(?<![\w.~:/])/(?:root|work|home/\w+|Users/\w+|tmp/(?!spark)\w+)\b")
"""Folders of one person's machine; Spark's own default `/tmp/spark-events` is everybody's."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as `scripts/release` builds it; nothing is downloaded."""
    (built,) = release.build(REPO, tmp_path_factory.mktemp("wheel"), "wheel")
    return built


@pytest.mark.long
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


@pytest.mark.long
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
    for name in ("pyproject.toml", "hatch_build.py", "build_kernels.py", "README.md", "LICENSE"):
        shutil.copy(REPO / name, copy / name)
    for name in ("analyzer", "rules", "listener/src"):
        shutil.copytree(
            REPO / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "*.so")
        )
    shutil.copy(REPO / "listener" / "pom.xml", copy / "listener" / "pom.xml")
    return copy


def built_without_maven(sources: Path, target: str, tmp_path: Path, **environment: str) -> Path:
    """The wheel or sdist, as hatchling makes it where neither mvn nor a compiler is on PATH."""
    out = tmp_path / "out"
    program = f"import hatchling.build as b; print(b.build_{target}({str(out)!r}))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=sources,
        env={"PATH": str(tmp_path), **environment},
        capture_output=True,
        text=True,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert target == "sdist" or "kernels stay plain Python, which is slower: " in said
    assert "Traceback" not in said
    (built,) = out.iterdir()
    return built


def test_without_maven_the_wheel_is_made_without_the_plugin(sources: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(built_without_maven(sources, "wheel", tmp_path)) as archive:
        assert "iqcar/apps/cli/main.py" in archive.namelist()
        assert JAR not in archive.namelist()


@pytest.mark.long
@pytest.mark.parametrize("compiler", ["nonsense", pytest.param("false", marks=pytest.mark.slow)])
def test_without_a_compiler_the_wheel_is_pure_and_has_no_old_kernels(
    sources: Path, tmp_path: Path, compiler: str
) -> None:
    library_in(sources / "analyzer" / "iqcar").write_bytes(b"of older sources")
    made = built_without_maven(sources, "wheel", tmp_path, CC=shutil.which(compiler) or compiler)
    assert made.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(made) as archive:
        assert "iqcar/replay/loop/event_kernel.py" in archive.namelist()
        assert not [name for name in archive.namelist() if "/_kernels." in name]


@pytest.mark.slow
def test_the_wheel_carries_compiled_kernels_where_there_is_a_compiler(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        compiled = [name for name in archive.namelist() if "/_kernels." in name]
    compiler = str(sysconfig.get_config_var("CC") or "cl").split()[0]
    if shutil.which(compiler):
        assert compiled == [library_in(Path("iqcar")).as_posix()]
    assert wheel.name.endswith("-py3-none-any.whl") == (not compiled)


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
    assert {
        "hatch_build.py",
        "build_kernels.py",
        "analyzer/iqcar/apps/cli/main.py",
        "rules/advice.json",
    } <= names


@pytest.fixture
def versions(tmp_path: Path) -> Path:
    """The files that name the version."""
    for name in ("analyzer/iqcar/version.py", "listener/pom.xml", "CHANGELOG.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPO / name, tmp_path / name)
    return tmp_path


def test_package_plugin_changelog_and_documentation_agree_on_the_version() -> None:
    assert release.agreed_version(REPO, released=False) == iqcar.__version__
    documented = (REPO / "docs/listener.md").read_text("utf-8")
    assert re.findall(r"org\.iqcar:iqcar-listener:(\S+)", documented) == [iqcar.__version__]


@pytest.mark.parametrize("name", ["analyzer/iqcar/version.py", "listener/pom.xml"])
def test_no_release_is_made_of_versions_that_differ(versions: Path, name: str) -> None:
    text = (versions / name).read_text("utf-8")
    (versions / name).write_text(text.replace(iqcar.__version__, "9.9.9", 1), "utf-8")
    with pytest.raises(SystemExit, match=r"version.py says .*pom.xml says"):
        release.agreed_version(versions, released=False)


def test_a_release_needs_its_changes_under_its_version(versions: Path) -> None:
    changelog = versions / "CHANGELOG.md"
    changelog.write_text(f"# Changelog\n\n## {iqcar.__version__}\n", "utf-8")
    assert release.agreed_version(versions, released=True) == iqcar.__version__
    changelog.write_text("# Changelog\n\n## Unreleased\n", "utf-8")
    assert release.agreed_version(versions, released=False) == iqcar.__version__
    with pytest.raises(SystemExit, match="begins with Unreleased"):
        release.agreed_version(versions, released=True)


def test_the_pom_says_what_maven_central_asks_for() -> None:
    pom = release.pom_of(REPO)
    asked = ("name", "description", "url", "licenses/license/name", "licenses/license/url")
    asked += ("developers/developer/name", "developers/developer/organizationUrl")
    asked += ("scm/connection", "scm/developerConnection", "scm/url")
    for path in asked:
        assert pom.findtext(release.POM + path.replace("/", f"/{release.POM}")), path
    assert pom.findtext(f"{release.POM}groupId") == "org.iqcar"
    assert pom.find(f"{release.POM}parent") is None
    scopes = [tag.text for tag in pom.iterfind(f"{release.POM}dependencies/*/{release.POM}scope")]
    depends = pom.findall(f"{release.POM}dependencies/*")
    assert len(scopes) == len(depends) and set(scopes) == {"provided", "test"}, (
        "--packages would fetch the others into every application"
    )


@pytest.mark.slow
def test_the_wheel_ships_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        shipped = archive.namelist()
    assert {name.split("/")[0] for name in shipped} == {
        "iqcar",
        "iqcar_lab",
        f"iqcar-{iqcar.__version__}.dist-info",
    }
    assert [name for name in shipped if "test" in name or "__pycache__" in name] == []


@pytest.mark.slow
def test_the_wheel_says_who_it_is(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        info = f"iqcar-{iqcar.__version__}.dist-info"
        metadata = Parser().parsestr(archive.read(f"{info}/METADATA").decode())
        entry_points = archive.read(f"{info}/entry_points.txt").decode()
        assert f"{info}/licenses/LICENSE" in archive.namelist()
    assert metadata["Version"] == iqcar.__version__
    assert metadata["Requires-Python"] == ">=3.10"
    assert "iqcar = iqcar.apps.cli.main:main" in entry_points
    assert "iqcar-lab = iqcar_lab.commands.main:main" in entry_points


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


@pytest.mark.slow
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
