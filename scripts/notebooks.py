"""Run the notebooks of examples/, and store what their cells answer, as text."""

from __future__ import annotations

import sys
from pathlib import Path

import nbclient
import nbformat

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


def executed(notebook: Path) -> nbformat.NotebookNode:
    """Run all cells in a kernel of this Python; an error in a cell is raised here."""
    cells = nbformat.read(notebook, as_version=4)
    with_paths = {"metadata": {"path": str(EXAMPLES)}}
    nbclient.NotebookClient(cells, kernel_name="python3", resources=with_paths).execute()
    for cell in cells.cells:
        cell.get("metadata", {}).pop("execution", None)  # when it ran
        for output in cell.get("outputs", ()):
            if "data" in output:
                output["data"] = {"text/plain": output["data"]["text/plain"]}
    return cells


if __name__ == "__main__":
    for notebook in NOTEBOOKS:
        nbformat.write(executed(notebook), notebook)
        sys.stdout.write(f"Wrote examples/{notebook.name}\n")
