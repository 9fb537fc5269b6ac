"""Data flow one way: a module imports only from modules to its left in FLOW, rooms included."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import networkx as nx
import pytest

REPO = Path(__file__).resolve().parents[2]
PACKAGE = REPO / "analyzer" / "iqcar"
LABORATORY = REPO / "analyzer" / "iqcar_lab"

FLOW = (
    "tables → logs → model → causes → rules → replay → diagnosis → say → pipeline →"
    " comparison → fleet → history → live → show → apps"
)
"""The architecture in one line; a room counts by its own name, whatever is inside."""

LAB_FLOW = "inject → experiment → printed → clusters → commands"
"""The same of the laboratory, which may import all of the product and is imported by none of it."""

ROOMS = {
    "base": "files",
    "model": "queries → waits → demand → doubts",
    "causes": "blame → wasted → slow_tasks → executors_used → savings → graph → stragglers → "
    "topics",
    "logs": "attach → text → decode → find → events → plugin → tasks → collect → assemble",
    "replay": "loop → rule_effect → whatif → queues",
    "show": "json → terminal → pictures → html",
    "apps": "serve → mcp → demo → cli",
}
"""The flow inside rooms that have rooms; their other modules stand to the right of all named."""

FRONT_DOOR = (
    *("version", "errors", "enums", "base", "tables", "diagnosis", "pipeline"),
    "comparison.comparison",
    *("say.findings", "say.sentences", "history", "live", "show", "apps.serve"),
    *("logs.ReadProgress", "logs.find", "logs.text", "logs.log_summary"),
    *("replay.whatif.question", "replay.whatif.question_parts"),
)
"""What `serve` may import: what lists logs, `read`, `diagnose` and `compare` as every command calls
them, and the report; none of the steps in between."""

GROUND = ("version", "errors", "enums", "base")
"""What everybody may import; each imports only from those to its left."""


def violations(package: Path, flow: str) -> list[str]:
    """Every import against the flow and every module without a place in it, one line each."""
    order = [*GROUND, *flow.split(" → "), "__main__", package.name]
    found = []
    for file in sorted(package.rglob("*.py")):
        module = module_of(file, package)
        if module not in order:
            found.append(f"{file.name}: module {module} has no place in FLOW")
            continue
        for line, parts in imports(file, package):
            imported = top_name(parts, package)
            if imported == module:
                continue
            if imported not in order:
                found.append(f"{file.name}:{line}: {imported} has no place in FLOW")
            elif order.index(imported) > order.index(module):
                found.append(f"{file.name}:{line}: {module} imports {imported}, to its right")
    return list(dict.fromkeys(found))  # one statement can import several names


def violations_inside(package: Path, rooms: Mapping[str, str]) -> list[str]:
    """Every import against the flow inside a room, and every room in it without a place."""
    found = []
    for room, flow in rooms.items():
        order, places = flow.split(" → "), room.split("/")
        for file in sorted((package / room).rglob("*.py")):
            inner = file.relative_to(package / room).parts
            unit = inner[0].removesuffix(".py")
            if len(inner) > 1 and unit not in order:
                found.append(f"{room}/{unit}: no place in the flow of {room}")
                continue
            if unit not in order:
                continue
            for line, parts in imports(file, package):
                above, name = parts[1 : 1 + len(places)], parts[1 + len(places) :][:1]
                if above != places or not name or name == [unit]:
                    continue
                if name[0] not in order[: order.index(unit)]:
                    found.append(f"{room}/{'/'.join(inner)}:{line}: {unit} imports {name[0]}")
    return list(dict.fromkeys(found))


def module_of(file: Path, package: Path) -> str:
    """The name in FLOW that a file belongs to; of `__init__`, the package's face, its own.

    The face may import everything, and nothing imports from it.
    """
    top = file.relative_to(package).parts[0].removesuffix(".py")
    return package.name if top == "__init__" else top


def imports(file: Path, package: Path, of: str = "") -> Iterator[tuple[int, list[str]]]:
    """Line and dotted name of every import of the package, in functions and TYPE_CHECKING too.

    of: another package than its own.
    """
    inside = (package.name, *file.relative_to(package).parts[:-1])
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"), str(file))):
        if isinstance(node, ast.Import):
            dotted = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = list(inside[: len(inside) - node.level + 1]) if node.level else []
            base = ".".join([*start, *([node.module] if node.module else [])])
            dotted = [f"{base}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in dotted:
            parts = name.split(".")
            if parts[0] == (of or package.name):
                yield node.lineno, parts


def top_name(parts: list[str], package: Path) -> str:
    """`iqcar.tables.Tables` → tables; what `__init__` itself offers (`iqcar.read`) → iqcar."""
    if len(parts) == 1:
        return package.name
    is_module = (package / parts[1]).is_dir() or (package / f"{parts[1]}.py").is_file()
    return parts[1] if is_module else package.name


def test_modules_import_only_from_their_left() -> None:
    assert violations(PACKAGE, FLOW) == []
    assert violations(LABORATORY, LAB_FLOW) == []


def imported_laboratory(package: Path) -> list[str]:
    """Every import of the laboratory, one line each."""
    return [
        f"{file.name}:{line}: {'.'.join(parts)}"
        for file in sorted(package.rglob("*.py"))
        for line, parts in imports(file, package, LABORATORY.name)
    ]


def test_the_product_imports_nothing_of_the_laboratory() -> None:
    assert imported_laboratory(PACKAGE) == []


def test_an_import_of_the_laboratory_is_found(planted: Path) -> None:
    (planted / "left.py").write_text("def late():\n    from iqcar_lab.inject import plan\n")
    assert imported_laboratory(planted) == ["left.py:2: iqcar_lab.inject.plan"]


def test_rooms_inside_rooms_import_only_from_their_left() -> None:
    assert violations_inside(PACKAGE, ROOMS) == []


def circles(package: Path) -> list[list[str]]:
    """Modules that import each other in a circle, directly or through others."""
    names = {file.relative_to(package).with_suffix("").as_posix() for file in package.rglob("*.py")}
    arrows = nx.DiGraph()
    for name in names:
        for _, parts in imports(package / f"{name}.py", package):
            inner = parts[1:]
            places = ("/".join(inner[:n]) for n in range(len(inner), 0, -1))
            arrows.add_edges_from((name, place) for place in places if place in names - {name})
    found = nx.strongly_connected_components(arrows)
    return sorted(sorted(circle) for circle in found if len(circle) > 1)


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert circles(PACKAGE) == circles(LABORATORY) == []


def test_a_circle_is_found(house: Path) -> None:
    assert circles(house) == []
    (house / "room" / "first" / "one.py").write_text("def f():\n    from iqcar.room import own\n")
    assert circles(house) == [["room/first/one", "room/own", "room/second/two"]]


def inner_imports(package: Path, room: str, allowed: tuple[str, ...]) -> list[str]:
    """Every import of a room from what it is not allowed to import, one line each."""
    return [
        f"{file.name}:{line}: {'.'.join(parts)}"
        for file in sorted((package / room).rglob("*.py"))
        for line, parts in imports(file, package)
        if not any(parts[1 : 1 + len(name.split("."))] == name.split(".") for name in allowed)
    ]


def test_serve_analyses_through_the_front_door() -> None:
    assert inner_imports(PACKAGE, "apps/serve", FRONT_DOOR) == []


def test_an_import_past_the_front_door_is_found(planted: Path) -> None:
    assert inner_imports(planted, "right", ("left",)) == ["inner.py:2: iqcar.right.y"]


def test_every_name_in_the_flow_is_a_module() -> None:
    for flow, package in ((FLOW, PACKAGE), (LAB_FLOW, LABORATORY)):
        names = flow.split(" → ")
        assert [name for name in names if top_name(["", name], package) == package.name] == []
    for room, flow in ROOMS.items():
        names = {file.stem for file in (PACKAGE / room).iterdir()}
        assert set(flow.split(" → ")) <= names


def test_every_room_with_rooms_has_a_flow() -> None:
    rooms = {init.parent.relative_to(PACKAGE) for init in PACKAGE.glob("*/**/__init__.py")}
    with_rooms = {room.parent.as_posix() for room in rooms if len(room.parts) > 1}
    assert with_rooms == set(ROOMS)


def test_no_file_name_stands_twice() -> None:
    named: dict[str, list[str]] = {}
    for file in PACKAGE.rglob("*.py"):
        path = file.relative_to(PACKAGE)
        if (
            path.parts[0] != "show"
            and path.parts[:2] != ("apps", "cli")
            and path.stem not in ("__init__", "__main__")
        ):
            named.setdefault(path.stem, []).append(path.as_posix())
    assert {name: files for name, files in named.items() if len(files) > 1} == {}


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A package with a module `left`, a package `right` and a face."""
    package = tmp_path / "iqcar"
    (package / "right").mkdir(parents=True)
    (package / "__init__.py").write_text("from iqcar.right.inner import thing\n")
    (package / "version.py").write_text("")
    (package / "left.py").write_text("from iqcar import version\nimport numpy\n")
    (package / "right" / "__init__.py").write_text("")
    (package / "right" / "inner.py").write_text("from iqcar.left import x\nfrom . import y\n")
    assert violations(package, "left → right") == []
    return package


@pytest.mark.parametrize(
    "source",
    [
        "from iqcar.right import thing",
        "from iqcar.right.inner import thing",
        "from iqcar import right",
        "from . import right",
        "from .right.inner import thing",
        "import iqcar.right.inner as r",
        "def late():\n    from iqcar.right import thing",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import iqcar.right",
    ],
)
def test_an_import_to_the_right_is_found_wherever_it_hides(planted: Path, source: str) -> None:
    (planted / "left.py").write_text(source)
    assert [v.split(": ", 1)[1] for v in violations(planted, "left → right")] == [
        "left imports right, to its right"
    ]


def test_a_relative_import_out_of_a_package_is_resolved(planted: Path) -> None:
    (planted / "right" / "inner.py").write_text("from ..left import x\n")
    assert violations(planted, "left → right") == []
    assert violations(planted, "right → left") == ["inner.py:1: right imports left, to its right"]


def test_the_face_is_imported_by_nobody(planted: Path) -> None:
    (planted / "left.py").write_text("import iqcar\nfrom iqcar import read\n")
    assert violations(planted, "left → right") == [
        "left.py:1: left imports iqcar, to its right",
        "left.py:2: left imports iqcar, to its right",
    ]


def test_a_module_without_a_place_is_found(planted: Path) -> None:
    (planted / "stray.py").write_text("")
    (planted / "left.py").write_text("import iqcar.stray\n")
    assert violations(planted, "left → right") == [
        "left.py:1: stray has no place in FLOW",
        "stray.py: module stray has no place in FLOW",
    ]


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A package with a room that has two rooms and a file of its own."""
    package = tmp_path / "iqcar"
    for inner in ("first", "second"):
        (package / "room" / inner).mkdir(parents=True)
        (package / "room" / inner / "__init__.py").write_text("")
    (package / "room" / "first" / "one.py").write_text("import numpy\n")
    (package / "room" / "second" / "two.py").write_text("from iqcar.room.first.one import x\n")
    (package / "room" / "own.py").write_text("from iqcar.room.second import two\n")
    assert violations_inside(package, {"room": "first → second"}) == []
    return package


def test_an_import_to_the_right_inside_a_room_is_found(house: Path) -> None:
    assert violations_inside(house, {"room": "second → first"}) == [
        "room/second/two.py:1: second imports first"
    ]


def test_an_import_of_a_rooms_own_file_by_a_room_inside_is_found(house: Path) -> None:
    (house / "room" / "first" / "one.py").write_text("from ..own import x\n")
    assert violations_inside(house, {"room": "first → second"}) == [
        "room/first/one.py:1: first imports own"
    ]


def test_a_room_inside_a_room_without_a_place_is_found(house: Path) -> None:
    assert violations_inside(house, {"room": "first"}) == [
        "room/second: no place in the flow of room"
    ]
