"""What several printed pages have: the remark that they are printed, and lists of fields."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any

PRINTED = "<!-- Printed by scripts/write_docs.py; edit the code, then run it again. -->\n"

Item = tuple[str, str, str]
"""A field: its name, what it holds, and what that means; both may be empty."""


def once(parts: Iterable[Sequence[Item]]) -> list[Item]:
    """Return the items that several parts have, by name; of one name the most frequent."""
    counts = Counter(item for part in parts for item in dict.fromkeys(part))
    most = {item[0]: item for item, count in reversed(counts.most_common()) if count > 1}
    return sorted(item for item in most.values() if item[2])


def listed(items: Sequence[Item], told: Collection[Item] = ()) -> list[str]:
    """Return the lines of a list of items; those that are told elsewhere are only named.

    Neighbours that hold the same and need no meaning share a line.
    """
    lines: list[str] = []
    names: list[str] = []
    own = [item for item in items if item not in told]
    for place, (name, holds, meaning) in enumerate(own):
        names.append(f"`{name}`")
        if not meaning and own[place + 1 : place + 2] and own[place + 1][1:] == (holds, ""):
            continue
        kind = f" ({holds})" if holds else ""
        lines.append(f"- {', '.join(names)}{kind}{f': {meaning}' if meaning else ''}")
        names = []
    also = [f"`{item[0]}`" for item in items if item in told]
    return lines + ([f"- also {', '.join(also)}"] if also else [])


FIELDS = "Where no type stands, a field in `_ms` holds a number, any other a string."


def fields(properties: dict[str, Any], titled: Collection[str] = ()) -> list[Item]:
    """Return the properties of a JSON Schema; those with a title of their own are linked."""
    items = []
    for name, field in properties.items():
        kind = holds(field, titled)
        usual = "number" if name.endswith("_ms") else "string"
        items.append((name, "" if kind == usual else kind, field.get("description", "")))
    return items


def holds(field: dict[str, Any], titled: Collection[str] = ()) -> str:
    """Return what a property of a JSON Schema may hold, in words."""
    if "const" in field:
        return f"`{field['const']}`"
    if "enum" in field:
        return ", ".join(f"`{value}`" if value else "empty" for value in field["enum"])
    if "anyOf" in field:
        return " or ".join(holds(one, titled) for one in field["anyOf"])
    if "$ref" in field:
        name = field["$ref"].rsplit("/", 1)[-1]
        return f"[{name}](#{name.lower()})" if name in titled else name
    items = field.get("items") or field.get("additionalProperties")
    of = f" of {holds(items, titled)}" if isinstance(items, dict) and items else ""
    kinds = field.get("type", "anything")
    return f"{kinds if isinstance(kinds, str) else ' or '.join(kinds)}{of}"
