"""Declares sections: what every report shows, as data that its renderers know nothing else of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from iqcar.base.units import (
    breakdown,
    change_words,
    duration,
    one_unit,
    percent,
    printable,
    short,
    signed,
)

NOT_RECORDED = "not recorded"


class Holds(Enum):
    """What the cells of a column hold."""

    NAME = "name"
    TEXT = "text"
    TIME = "ms"
    CHANGE = "ms more or less"
    RELATIVE = "per cent more or less"
    SHARE = "share, 0 to 1"
    COUNT = "number of things"
    NUMBER = "number"
    RATE = "bytes per second"
    TIMES = "ms by name"
    SHARES = "share by name"
    COUNTS = "number of things by name"

    @property
    def is_number(self) -> bool:
        """Whether cells are aligned to the right."""
        return self in _NUMBERS


_NUMBERS = (
    Holds.TIME,
    Holds.CHANGE,
    Holds.RELATIVE,
    Holds.SHARE,
    Holds.COUNT,
    Holds.NUMBER,
    Holds.RATE,
)


@dataclass(frozen=True)
class SectionColumn:
    """A column of a section.

    wide: whether it is left out where there is little room: on a terminal.
    """

    title: str
    holds: Holds = Holds.TEXT
    wide: bool = False


@dataclass(frozen=True)
class Section:
    """A sentence, a table and notes.

    key: names the section within a report.
    title, sentence: what it is called, and what it says in short; the sentence may be empty.
    rows: a cell per column, None where nothing was recorded; the most important first.
    caption: what the rows are.
    notes: sentences after the table.
    advice: a cause and what helps against it.
    """

    key: str
    title: str
    sentence: str = ""
    columns: tuple[SectionColumn, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    caption: str = ""
    notes: tuple[str, ...] = ()
    advice: tuple[tuple[str, str], ...] = ()

    def first(self, most: int, rest: str = "more in the result of --json") -> Section:
        """Keep so many rows, and note how many more there are."""
        left = len(self.rows) - most
        if left <= 0:
            return self
        return replace(self, rows=self.rows[:most], notes=(f"{left:,} {rest}.", *self.notes))

    def written(self, name_width: int = 120) -> list[list[str]]:
        """Write the cells of all rows in words, the durations of a column in one unit."""
        writers = [
            one_unit(row[i] for row in self.rows if not isinstance(row[i], str))
            if column.holds in (Holds.TIME, Holds.CHANGE)
            else duration
            for i, column in enumerate(self.columns)
        ]
        return [
            [
                cell_text(column.holds, value, name_width, write)
                for column, value, write in zip(self.columns, row, writers, strict=True)
            ]
            for row in self.rows
        ]

    def is_empty(self) -> bool:
        """Whether it says nothing."""
        return not (self.sentence or self.rows or self.notes)


def range_words(low: float, high: float, write: Callable[[float], str] = duration) -> str:
    """Write a range: ``1.2 s … 3.4 s``."""
    return f"{write(low)} … {write(high)}"


def columns(*titles: str) -> tuple[SectionColumn, ...]:
    """Make columns of their titles, each with what it holds: ``"query:name | lost:time"``.

    titles: columns apart by ``|``: a title, a colon and the name of one of :class:`Holds` in lower
    case (text by default); before it a ``+`` where the column is wide.
    """
    made = []
    for spec in (one.strip() for joined in titles for one in joined.split("|")):
        title, _, holds = spec.removeprefix("+").partition(":")
        made.append(SectionColumn(title, Holds[holds.upper() or "TEXT"], spec.startswith("+")))
    return tuple(made)


def cell_text(
    holds: Holds, value: Any, name_width: int = 120, write: Callable[[Any], str] = duration
) -> str:
    """Write a cell in words; a text in place of what a column holds stays, but printable."""
    if value is None:
        return NOT_RECORDED if holds.is_number else ""
    if isinstance(value, str):
        return short(value, name_width) if holds is Holds.NAME else printable(value)
    if holds is Holds.TIME:
        return write(value)
    if holds is Holds.CHANGE:
        return signed(value, write)
    if holds is Holds.COUNT:
        return f"{value:,}"
    if holds is Holds.RATE:
        return f"{value / 1e6:.1f} MB/s"
    return _WRITE[holds](value)


_WRITE: dict[Holds, Callable[[Any], str]] = {
    Holds.TEXT: str,
    Holds.RELATIVE: change_words,
    Holds.SHARE: percent,
    Holds.NUMBER: lambda value: f"{value:.3g}",
    Holds.TIMES: breakdown,
    Holds.SHARES: lambda parts: _listed(parts, percent),
    Holds.COUNTS: lambda parts: _listed(parts, "{:,}".format),
}

MOST_LISTED = 4
"""Parts named in one cell."""


def _listed(parts: Mapping[str, Any], write: Callable[[Any], str]) -> str:
    listed = [f"{short(name, 40)} {write(amount)}" for name, amount in parts.items()]
    more = len(listed) - MOST_LISTED
    return ", ".join(listed[:MOST_LISTED]) + (f", {more} more" if more > 0 else "")
