"""Generates JSON Schemas from the structs that declare results; values as JSON has them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_type_hints

import msgspec
import numpy as np

from iqcar.version import __version__

if TYPE_CHECKING:
    import pandas as pd

SCHEMA_VERSION = "1"
"""Changes when a reader of the JSON would have to change."""
HEAD = {"schema_version": SCHEMA_VERSION, "iqcar_version": __version__}
"""What every document begins with."""
METHOD = {"impact": "time-lost", "source_usage": "active"}
"""Fields of the settings that could be chosen once, with the only values they have now."""


def plain(value: Any) -> Any:
    """Return a cell of a table as JSON has it."""
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return rows as plain dicts: Python numbers, None for NaN."""
    columns = [frame[name].astype(object).tolist() for name in frame.columns]
    names = [str(name) for name in frame.columns]
    return [
        {name: plain(value) for name, value in zip(names, row, strict=True)}
        for row in zip(*columns, strict=True)
    ]


def laid_out(kind: type[msgspec.Struct], one: Any, /, **given: Any) -> dict[str, Any]:
    """Lay out the fields that a struct declares: those given, else the attributes of an object."""
    return {
        name: given[name] if name in given else plain(getattr(one, name))
        for name in kind.__struct_fields__
    }


DRAFT = "https://json-schema.org/draft/2020-12/schema"


def schema_components(kinds: Iterable[type], template: str) -> dict[str, Any]:
    """Return the schema of each struct that some types are made of, by its name.

    A docstring describes its struct, a text in ``Annotated`` its field.
    template: how a schema refers to another one: ``#/$defs/{name}``.
    """
    kinds = tuple(kinds)
    _, parts = msgspec.json.schema_components(kinds, ref_template=template)
    for kind in _structs_in(kinds):
        hints = get_type_hints(kind, include_extras=True)
        for field in msgspec.structs.fields(kind):
            for text in getattr(hints[field.name], "__metadata__", ()):
                if isinstance(text, str):
                    properties = parts[kind.__name__]["properties"]
                    properties[field.encode_name]["description"] = text
    return parts


def schema_text(
    *kinds: type[msgspec.Struct],
    title: str,
    description: str = "",
    identity: str = "",
    dependent: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """Return the JSON Schema of documents of exactly one of some kinds, as text.

    Where a field of `dependent` is there, so are the fields it names.
    """
    parts = schema_components(kinds, "#/$defs/{name}")
    for part in parts.values():
        if "description" in part:
            part["description"] = " ".join(part["description"].split())
    head = {"$schema": DRAFT, "$id": identity, "title": title, "description": description}
    head = {key: value for key, value in head.items() if value}
    if len(kinds) == 1:
        whole = parts.pop(kinds[0].__name__)
    else:
        whole = {"oneOf": [{"$ref": f"#/$defs/{kind.__name__}"} for kind in kinds]}
    if dependent:
        whole["dependentRequired"] = {key: list(names) for key, names in dependent.items()}
    written = {**head, **whole, **head, "$defs": parts}
    return json.dumps(written, indent=2, ensure_ascii=False) + "\n"


def _structs_in(kinds: Iterable[type]) -> set[type[msgspec.Struct]]:
    """Return the structs that some types are made of."""
    found: set[type[msgspec.Struct]] = set()
    left: list[Any] = list(msgspec.inspect.multi_type_info(kinds))
    while left:
        one = left.pop()
        if isinstance(one, msgspec.inspect.StructType):
            if one.cls not in found:
                found.add(one.cls)
                left += [field.type for field in one.fields]
            continue
        for name in ("types", "item_types"):
            left += getattr(one, name, ())
        left += [
            inner
            for name in ("type", "item_type", "value_type")
            if (inner := getattr(one, name, None)) is not None
        ]
    return found
