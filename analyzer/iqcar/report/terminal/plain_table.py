"""The plain table that all reports on a terminal use."""

from __future__ import annotations

from rich.table import Table


def plain_table(*titles: str) -> Table:
    """Make a plain table; titles that start with ``>`` are right-aligned."""
    table = Table(box=None, pad_edge=False, header_style="italic", padding=(0, 2, 0, 0))
    for title in titles:
        right = title.startswith(">")
        table.add_column(title.lstrip(">"), justify="right" if right else "left", overflow="fold")
    return table
