"""Lays rows of results out as a plain table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from iqcar.base.units import duration, printable, short
from iqcar.show.terminal.layout import indented, plain_table

WIDTH = 60
"""Characters of a cell."""


def print_rows(console: Console, rows: Sequence[Mapping[str, Any]], most: int | None) -> None:
    """Print the first rows, and how many more there are; a title ends with its unit."""
    if not rows:
        console.print("Nothing was found.")
        return
    numbers = (int, float)
    table = plain_table(
        *(">" * isinstance(rows[0][name], numbers) + name.removesuffix("_ms") for name in rows[0])
    )
    for row in rows[:most]:
        table.add_row(*(printable(short(words(name, each), WIDTH)) for name, each in row.items()))
    console.print(table)
    if most is not None and len(rows) > most:
        console.print(indented(f"and {len(rows) - most} more"))


def words(name: str, value: Any) -> str:
    """Write a value of a row as text; what is unknown is empty."""
    if value is None:
        return ""
    if name.endswith("_ms"):
        return duration(value)
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {words('', each)}" for key, each in value.items())
    if isinstance(value, (list, tuple)):
        return "; ".join(words("", each) for each in value)
    return str(value)
