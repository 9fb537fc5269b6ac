"""The notebooks in examples/ run, and answer what is stored in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest

from scripts import notebooks

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("path", notebooks.NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_answers_what_it_shows(path: Path) -> None:
    shown = answers(nbformat.read(path, as_version=4))
    assert any(shown) and shown == answers(notebooks.executed(path)), "run scripts/notebooks.py"


def answers(notebook: nbformat.NotebookNode) -> list[list[Any]]:
    return [list(cell.get("outputs", ())) for cell in notebook.cells]
