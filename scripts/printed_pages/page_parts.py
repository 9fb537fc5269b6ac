"""What several printed pages have: the remark that they are printed, and tables of fields."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

PRINTED = "<!-- Printed by scripts/write_docs.py; edit the code, then run it again. -->\n"


def fields(properties: dict[str, Any], titled: Collection[str] = ()) -> list[str]:
    """Return the lines of a table of the properties of a JSON Schema.

    Parts that have a title of their own on the page are linked.
    """
    lines = ["| field | holds | meaning |", "|---|---|---|"]
    for name, field in properties.items():
        lines.append(f"| `{name}` | {holds(field, titled)} | {field.get('description', '')} |")
    return lines


def holds(field: dict[str, Any], titled: Collection[str] = ()) -> str:
    """Return what a property of a JSON Schema may hold, in words."""
    if "const" in field:
        return f"`{field['const']}`"
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if "anyOf" in field:
        return " or ".join(holds(one, titled) for one in field["anyOf"])
    if "$ref" in field:
        name = field["$ref"].rsplit("/", 1)[-1]
        return f"[{name}](#{name.lower()})" if name in titled else name
    items = field.get("items") or field.get("additionalProperties")
    of = f" of {holds(items, titled)}" if isinstance(items, dict) and items else ""
    return f"{field.get('type', 'anything')}{of}"
