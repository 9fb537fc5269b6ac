"""Shapes by which tokens of known services are recognised, from a data file of the Spark plugin."""

from __future__ import annotations

import json
from functools import lru_cache

from iqcar.eventlog.text.shared_data import SECRETS, shared_file


@lru_cache(1)
def token_shapes() -> str:
    """Return one expression of all shapes, to be put between brackets."""
    shapes = json.loads(shared_file(SECRETS).read_text(encoding="utf-8"))["shapes"]
    return "|".join(f"(?:{shape})" for shape in shapes.values())
