"""The plugin's rooms use each other one way: a package names only packages to its left in FLOW."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
SOURCES = REPO / "listener/src/main/java/org/iqcar/spark"

FLOW = (
    "text → safety → settings → events → executor.threads → executor.host → executor.python →"
    " executor.measure → executor → driver.queries → driver.rules → driver.stream → driver → spark"
)
"""Sub-packages of `org.iqcar.spark` in order; `spark` is that package itself.

The driver may use executors' rooms: in local mode it is their JVM. They never use the driver's.
"""

FACE = "spark"
"""The package that holds the entry points: it may use every room, and no room uses it, but for the
events, whose names in event logs begin with it."""

EVENTS = "events"
NOT_CODE = re.compile(r'"(?:\\.|[^"\\\n])*"|/\*.*?\*/|//[^\n]*|^package .*?;', re.DOTALL | re.M)
NAMED = re.compile(r"\borg\.iqcar\.spark((?:\.[a-z]\w*)*)\.(IqcarEvent|[A-Z]|\*)")


def room_of(file: Path, sources: Path) -> str:
    """The name in FLOW of the package that a file belongs to."""
    folder = ".".join(file.relative_to(sources).parent.parts)
    return folder or (EVENTS if file.name.startswith("IqcarEvent") else FACE)


def violations(sources: Path, flow: str) -> list[str]:
    """Every use of a class against the flow, by import or by full name, one line each."""
    order = flow.split(" → ")
    found = []
    for file in sorted(sources.rglob("*.java")):
        room = room_of(file, sources)
        if room not in order:
            found.append(f"{file.name}: package {room} has no place in FLOW")
            continue
        code = NOT_CODE.sub(" ", file.read_text(encoding="utf-8"))
        names = {(match[1], match[2] == "IqcarEvent") for match in NAMED.finditer(code)}
        for used in sorted({room[1:] or (EVENTS if event else FACE) for room, event in names}):
            if used not in order:
                found.append(f"{file.name}: package {used} has no place in FLOW")
            elif order.index(used) > order.index(room):
                found.append(f"{file.name}: {room} uses {used}, to its right")
    return found


def test_packages_use_only_packages_to_their_left() -> None:
    assert violations(SOURCES, FLOW) == []


def test_every_name_in_the_flow_is_a_package_that_says_what_it_holds() -> None:
    rooms = {room_of(file, SOURCES) for file in SOURCES.rglob("package-info.java")}
    assert rooms == set(FLOW.split(" → "))


def test_tests_lie_in_the_packages_of_what_they_test() -> None:
    tests = REPO / "listener/src/test/java/org/iqcar/spark"
    homes = {file.stem: room_of(file, SOURCES) for file in SOURCES.rglob("*.java")}
    for file in tests.rglob("*Test.java"):
        tested = file.stem.removesuffix("Test")
        assert homes.get(tested, room_of(file, tests)) == room_of(file, tests), file.name


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """Sources with two rooms and an entry point; the right room uses the left one."""
    for room in ("left", "right"):
        (tmp_path / room).mkdir()
    (tmp_path / "Entry.java").write_text(
        "package org.iqcar.spark;\nimport org.iqcar.spark.right.R;\n"
    )
    (tmp_path / "left/L.java").write_text(
        "package org.iqcar.spark.left;\nimport java.util.List;\n"
        '/** See org.iqcar.spark.right.R. */ // and org.iqcar.spark.Entry\nString s = "'
        'org.iqcar.spark.Entry";\n'
    )
    (tmp_path / "right/R.java").write_text(
        "package org.iqcar.spark.right;\nimport org.iqcar.spark.left.L;\n"
    )
    assert violations(tmp_path, "left → right → spark") == []
    return tmp_path


@pytest.mark.parametrize(
    ("source", "used"),
    [
        ("import org.iqcar.spark.right.R;", "right"),
        ("import static org.iqcar.spark.right.R.x;", "right"),
        ("import org.iqcar.spark.right.*;", "right"),
        ("Object r = new org.iqcar.spark.right.R();", "right"),
        ("import org.iqcar.spark.Entry;", "spark"),
        ("org.iqcar.spark.Entry entry;", "spark"),
    ],
)
def test_a_use_of_a_package_to_the_right_is_found(planted: Path, source: str, used: str) -> None:
    (planted / "left/L.java").write_text(f"package org.iqcar.spark.left;\n{source}\n")
    assert violations(planted, "left → right → spark") == [
        f"L.java: left uses {used}, to its right"
    ]


def test_a_package_without_a_place_is_found(planted: Path) -> None:
    assert violations(planted, "left → spark") == [
        "Entry.java: package right has no place in FLOW",
        "R.java: package right has no place in FLOW",
    ]


THREADS = re.compile(r"new Thread\(|ThreadPool(?:Executor)?(?:<>)?\(|Executors\.|new Timer\(")


def test_every_thread_of_the_plugin_is_one_that_cannot_end_an_executor() -> None:
    for file in SOURCES.rglob("*.java"):
        code = NOT_CODE.sub(" ", file.read_text(encoding="utf-8"))
        for made in THREADS.finditer(code):
            statement = code[made.start() :].partition(";")[0]
            own = file.name == "Safely.java" or "Safely." in statement
            assert own, f"{file.name}: {statement}"
