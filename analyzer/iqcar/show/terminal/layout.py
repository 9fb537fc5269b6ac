"""Layout of all reports on a terminal: console, plain tables, indented sections, doubts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from iqcar.base.units import printable
from iqcar.say.section import Section

WIDTH_WITHOUT_TERMINAL = 118
"""Characters per line when the output goes to a file or a pipe."""


NARROW = 80
"""Characters per line of what is read first: it fits on every terminal."""


def terminal(file: IO[str] | None = None, width: int = WIDTH_WITHOUT_TERMINAL) -> Console:
    """Return a console on standard output or a file, with lines of a width off a terminal.

    Names come from logs: nothing in them is taken for markup.
    """
    plain = {"highlight": False, "markup": False, "emoji": False, "file": file}
    console = Console(**plain)  # type: ignore[arg-type]
    if not console.is_terminal:
        console = Console(width=width, **plain)  # type: ignore[arg-type]
    return console


def plain_table(*titles: str) -> Table:
    """Make a plain table; titles that start with ``>`` are right-aligned."""
    table = Table(box=None, pad_edge=False, header_style="italic", padding=(0, 2, 0, 0))
    for title in titles:
        right = title.startswith(">")
        table.add_column(title.lstrip(">"), justify="right" if right else "left", overflow="fold")
    return table


def indented(what: RenderableType, by: int = 3) -> RenderableType:
    """Indent a block; a text is made printable, because it may hold names from logs."""
    return Padding(Text(printable(what)) if isinstance(what, str) else what, (0, 0, 0, by))


NAME_WIDTH = 48
"""Characters of a name in a table."""


def section_table(section: Section) -> Table:
    """Lay the rows of a section out as a table, without its wide columns."""
    kept = [number for number, column in enumerate(section.columns) if not column.wide]
    shown = [section.columns[number] for number in kept]
    table = plain_table(*(f"{'>' if one.holds.is_number else ''}{one.title}" for one in shown))
    for column, one in zip(table.columns, shown, strict=True):
        column.no_wrap = one.holds.is_number
    for cells in section.written(NAME_WIDTH):
        table.add_row(*(Text(cells[number]) for number in kept))
    return table


def section_block(section: Section) -> Group:
    """Lay a section out: sentence, table, notes, advice."""
    parts: list[RenderableType] = [Text(printable(section.sentence))] if section.sentence else []
    parts += [section_table(section)] if section.rows else []
    parts += [Text(printable(note)) for note in section.notes]
    parts += [
        Text(printable(f"{cause[:1].upper()}{cause[1:]}: {helps}"))
        for cause, helps in section.advice
    ]
    return Group(*parts)


def show_section(console: Console, section: Section) -> None:
    """Print a section under its title; nothing where it is empty."""
    if not section.is_empty():
        print_section(console, section.title, section_block(section))


def print_section(console: Console, title: str, content: RenderableType | None) -> None:
    """Print a title and its content indented; nothing where there is no content."""
    if content is not None:
        console.print()
        console.print(Text(title, style="bold"))
        console.print(indented(content))


def print_part(console: Console, title: str, content: RenderableType) -> None:
    """Print a part of a section: title and content indented."""
    console.print()
    console.print(indented(Text(title, style="italic")))
    console.print(indented(content))


def print_doubts(doubts: Iterable[str], console: Console) -> None:
    """Print what is doubtful, a sentence a line; nothing where there is no doubt."""
    doubts = list(doubts)
    if doubts:
        console.print()
        console.print(Text("What is doubtful", style="bold"))
    for doubt in doubts:
        console.print(indented(f"- {doubt}"))
