"""Reads settings from text (``name=value,…``) and checks them against bounds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, TypeVar

from iqcar.enums import Kind
from iqcar.errors import UsageError

Chosen = TypeVar("Chosen", bound="Thresholds")
WORDS = {int: "a whole number", float: "a number", bool: "true or false"}
"""What an error calls the values of a type."""


@dataclass(frozen=True)
class Thresholds:
    """Base of settings: fields with defaults, of type int, float, bool or a kind of the package."""

    BOUNDS: ClassVar[Mapping[str, tuple[float, float]]] = {}
    """Least and largest value of each number."""

    def __post_init__(self) -> None:
        """Check the bounds; raises UsageError."""
        for name, (low, high) in self.BOUNDS.items():
            value = getattr(self, name)
            if not (math.isfinite(value) and low <= value <= high):
                raise UsageError(f"{value} is not from {low} to {high:g}", f"settings: {name}")

    @classmethod
    def presets(cls: type[Chosen]) -> Mapping[str, Chosen]:
        """Settings that one word of the text stands for."""
        return {}

    @classmethod
    def parse(cls: type[Chosen], text: str, start: Chosen | None = None) -> Chosen:
        """Read ``name=value,name=value``.

        Raises UsageError if a name is unknown or a value does not fit it.

        text: a word of :meth:`presets` replaces all settings before it.
        start: values of the settings that the text does not name; the defaults if left out.
        """
        found, presets = start or cls(), cls.presets()
        types = {field.name: type(field.default) for field in fields(cls)}
        for part, name, value in named_values(text):
            if part in presets:
                found = presets[part]
                continue
            if name not in types or value is None:
                raise UsageError(
                    f"{part!r} is no setting", "--settings", f"use NAME=VALUE of {', '.join(types)}"
                )
            found = replace(found, **{name: _value(name, value, types[name])})
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as numbers, booleans and strings."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {n: str(value) if isinstance(value, Kind) else value for n, value in values.items()}


def named_values(text: str) -> Iterator[tuple[str, str, str | None]]:
    """Split ``name=value,name=value``: each part, its name, and its value (None without ``=``)."""
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, sign, value = (piece.strip() for piece in part.partition("="))
        yield part, name, value if sign else None


def _value(name: str, text: str, kind: type) -> Any:
    try:
        return {"true": True, "false": False}[text] if kind is bool else kind(text)
    except (KeyError, ValueError):
        words = f"one of {', '.join(kind)}" if issubclass(kind, Kind) else WORDS[kind]
        raise UsageError(f"{text!r} is not {words}", f"settings: {name}") from None
