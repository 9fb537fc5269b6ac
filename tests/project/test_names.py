"""One name stands for one thing, and a module's first sentence says what it does."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.project.test_layers import FLOW, LAB_FLOW, LABORATORY, PACKAGE

SHARED = {
    "Changes", "Comparison", "Diagnosis", "FleetSummary", "Found", "Places", "Progress", "Run",
    "Work",
}  # fmt: skip
"""Names of classes that stand twice for now."""
SIMULATORS = "clusters"
"""The laboratory's room whose names are those of what it simulates."""
SAID_OTHERWISE = ("logs", "show", "apps", "base", "tables")
"""Rooms whose modules do not all begin with a verb for now."""


def test_a_class_name_stands_for_one_class() -> None:
    named: dict[str, list[str]] = {}
    for file in PACKAGE.parent.rglob("*.py"):
        if file.is_relative_to(LABORATORY / SIMULATORS):
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                named.setdefault(node.name, []).append(file.name)
    assert {name for name, files in named.items() if len(files) > 1} <= SHARED


def test_a_modules_first_sentence_begins_with_what_it_does() -> None:
    rooms = [PACKAGE / room for room in FLOW.split(" → ") if room not in SAID_OTHERWISE]
    rooms += [
        LABORATORY / room for room in LAB_FLOW.split(" → ") if room not in ("commands", SIMULATORS)
    ]
    modules = [
        file
        for room in rooms
        for file in (*room.rglob("*.py"), room.with_suffix(".py"))
        if file.exists() and file.name != "__init__.py"
    ]
    first = {file: _docstring(file).split()[0] for file in modules}
    assert [file.name for file, word in first.items() if not word.endswith("s")] == []


def _docstring(file: Path) -> str:
    return ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "nothing"
