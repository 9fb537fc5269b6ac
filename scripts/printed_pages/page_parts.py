"""What several printed pages have: the remark that they are printed, and tables of fields."""

from __future__ import annotations

from typing import Any

PRINTED = "<!-- Printed by scripts/write_docs.py; edit the code, then run it again. -->\n"


def fields(properties: dict[str, Any]) -> list[str]:
    """Return the lines of a table of the properties of a JSON Schema."""
    lines = ["| field | holds | meaning |", "|---|---|---|"]
    for name, field in properties.items():
        if "const" in field:
            holds = f"`{field['const']}`"
        elif "enum" in field:
            holds = ", ".join(f"`{value}`" for value in field["enum"])
        else:
            types = field.get("type", field.get("$ref", "").rsplit("/", 1)[-1])
            holds = " or ".join([types] if isinstance(types, str) else types)
        lines.append(f"| `{name}` | {holds} | {field['description']} |")
    return lines
