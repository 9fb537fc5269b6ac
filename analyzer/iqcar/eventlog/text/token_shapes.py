"""Shapes by which tokens of known services are recognised, from a data file of the Spark plugin."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

_FILE = "iqcar_secrets.json"


@lru_cache(1)
def token_shapes() -> str:
    """Return one expression of all shapes, to be put between brackets."""
    shapes = json.loads(shapes_file().read_text(encoding="utf-8"))["shapes"]
    return "|".join(f"(?:{shape})" for shape in shapes.values())


def shapes_file() -> Path:
    """Return where the data file is: in the installed package, else in the repository.

    Raises
    ------
    FileNotFoundError
        If the data file is missing, which an installation can never cause.
    """
    package = Path(__file__).resolve().parents[2]
    resources = package.parents[1] / "listener" / "src" / "main" / "resources"
    for path in (package / "data" / _FILE, resources / _FILE):
        if path.is_file():
            return path
    raise FileNotFoundError(f"{_FILE} is missing from the iqcar installation at {package}")
