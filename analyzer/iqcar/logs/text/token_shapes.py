"""Shapes of tokens, and places in which secrets stand, from a data file of the Spark plugin."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from iqcar.logs.text.linear import BLANK, WORD
from iqcar.logs.text.shared_data import SECRETS, shared_file


@lru_cache(1)
def _data() -> dict[str, Any]:
    read: dict[str, Any] = json.loads(shared_file(SECRETS).read_text(encoding="utf-8"))
    return read


def token_shapes() -> str:
    """Return one expression of all shapes, to be put between brackets."""
    return "|".join(f"(?:{shape})" for shape in _data()["shapes"].values())


def secret_places() -> list[str]:
    """Return the expressions of places in which the first group is a secret."""
    return [
        place.replace("%W", WORD).replace("%S", BLANK).replace("%s", f"[{BLANK}]")
        for place in _data()["contexts"].values()
    ]


def look_alike(pattern: str) -> str:
    """Return an expression of letters in which each may be one that looks like it."""
    alike = _data()["lookalikes"]
    return "".join(
        f"[{letter}{alike[letter]}]" if letter in alike else letter for letter in pattern
    )
