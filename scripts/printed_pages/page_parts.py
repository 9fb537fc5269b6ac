"""What several printed pages have: the remark that they are printed, and tables of fields."""

from __future__ import annotations

from typing import Any

PRINTED = "<!-- Printed by scripts/write_docs.py; edit the code, then run it again. -->\n"


def fields(properties: dict[str, Any]) -> list[str]:
    """Return the lines of a table of the properties of a JSON Schema."""
    lines = ["| field | holds | meaning |", "|---|---|---|"]
    for name, field in properties.items():
        lines.append(f"| `{name}` | {holds(field)} | {field.get('description', '')} |")
    return lines


def holds(field: dict[str, Any]) -> str:
    """Return what a property of a JSON Schema may hold, in words."""
    if "const" in field:
        return f"`{field['const']}`"
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if "anyOf" in field:
        return " or ".join(holds(one) for one in field["anyOf"])
    if "$ref" in field:
        return f"[{(name := field['$ref'].rsplit('/', 1)[-1])}](#{name.lower()})"
    items = field.get("items") or field.get("additionalProperties")
    of = f" of {holds(items)}" if isinstance(items, dict) and items else ""
    return f"{field.get('type', 'anything')}{of}"
