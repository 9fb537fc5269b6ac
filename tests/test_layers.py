"""Data flow one way: a module imports only from modules to its left in FLOW."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parent.parent
PACKAGE = REPO / "analyzer" / "iqcar"

FLOW = (
    "errors → opening → derived → kinds → words → columns → plugin_tables → tables →"
    " eventlog → queries → dag → waits → query_waits → grouping → outside_load → capacity →"
    " slots → ratp → pieces → usage → sweep → agenda → stage_losses → blame_tables →"
    " folding → blame_sources → blame_doubts → blame → graph → stragglers → topics → rules →"
    " replay → record_doubts → doubts → plots → diagnosis → pipeline → fleet → report →"
    " serve → listener_jar → spark_conf → query_scope → sampler → inject → demo → cli →"
    " __main__"
)
"""The architecture in one line; a package counts by its own name, whatever is inside."""

FROM_ANYWHERE = "version"
"""The one module that everybody may import; it imports nothing."""

FACE = "iqcar"
"""The package's `__init__`: it may import everything, and nothing imports from it."""


def violations(package: Path, flow: str) -> list[str]:
    """Every import against the flow and every module without a place in it, one line each."""
    order = [FROM_ANYWHERE, *flow.split(" → "), FACE]
    found = []
    for file in sorted(package.rglob("*.py")):
        module = module_of(file, package)
        if module not in order:
            found.append(f"{file.name}: module {module} has no place in FLOW")
            continue
        for line, imported in imports(file, package):
            if imported == module:
                continue
            if imported not in order:
                found.append(f"{file.name}:{line}: {imported} has no place in FLOW")
            elif order.index(imported) > order.index(module):
                found.append(f"{file.name}:{line}: {module} imports {imported}, to its right")
    return list(dict.fromkeys(found))  # one statement can import several names


def module_of(file: Path, package: Path) -> str:
    """The name in FLOW that a file belongs to."""
    top = file.relative_to(package).parts[0].removesuffix(".py")
    return FACE if top == "__init__" else top


def imports(file: Path, package: Path) -> Iterator[tuple[int, str]]:
    """Line and top name of every import of the package, also in functions and TYPE_CHECKING."""
    inside = (FACE, *file.relative_to(package).parts[:-1])
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
            if parts[0] == FACE:
                yield node.lineno, top_name(parts, package)


def top_name(parts: list[str], package: Path) -> str:
    """`iqcar.tables.Tables` → tables; what `__init__` itself offers (`iqcar.read`) → iqcar."""
    if len(parts) == 1:
        return FACE
    is_module = (package / parts[1]).is_dir() or (package / f"{parts[1]}.py").is_file()
    return parts[1] if is_module else FACE


def test_modules_import_only_from_their_left() -> None:
    assert violations(PACKAGE, FLOW) == []


def test_every_name_in_the_flow_is_a_module() -> None:
    assert [name for name in FLOW.split(" → ") if top_name([FACE, name], PACKAGE) == FACE] == []


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
