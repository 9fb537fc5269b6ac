"""Drawings as SVG that stand alone: no script, no style sheet, legible on light and dark paper.

Text and lines have the colour of the text around them, marks have colours of
:mod:`iqcar.show.pictures.theme`, which show on both.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable
from dataclasses import dataclass

from iqcar.base.units import HOUR_MS, MINUTE_MS, SECOND_MS, printable, short

FONT_PX = 13
ROW_PX = 24
"""Height of a labelled row."""
LABEL_PX = 250
"""Width of the labels beside a picture."""
LABEL_CHARACTERS = 31
TICKS = 4
"""Intervals of an axis, about."""


@dataclass(frozen=True)
class Drawing:
    """A picture as SVG; a notebook shows it."""

    svg: str

    def _repr_html_(self) -> str:
        """Show the picture in a notebook."""
        return self.svg

    def __str__(self) -> str:
        return self.svg


def drawing(label: str, width: int, height: int, elements: Iterable[str]) -> Drawing:
    """Put elements together.

    label: what is seen, for who cannot see it; plain text.
    width, height: in pixels.
    elements: SVG elements, such as from :func:`text` and :func:`mark`.
    """
    return Drawing(
        f'<svg class="drawing" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" aria-label="{escape(label)}" '
        f'font-family="system-ui, sans-serif" font-size="{FONT_PX}" fill="currentColor">'
        f"{''.join(elements)}</svg>"
    )


def escape(name: str) -> str:
    """Escape a text, and keep right-to-left letters in it to themselves."""
    return f"\u2068{html.escape(printable(name))}\u2069"


def text(x: float, y: float, words: str, *, anchor: str = "start", weight: int = 400) -> str:
    """Write words; ``y`` is the line that letters stand on."""
    heavy = f' font-weight="{weight}"' if weight != 400 else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{heavy}>{escape(words)}</text>'


def label(y: float, name: str, *, weight: int = 400) -> str:
    """Write a row's name, shortened, with the whole name as its title."""
    heavy = f' font-weight="{weight}"' if weight != 400 else ""
    return (
        f'<g{heavy}><title>{escape(short(name, 300))}</title><text x="0" y="{y:.1f}">'
        f"{escape(short(name, LABEL_CHARACTERS))}</text></g>"
    )


def bar(x: float, y: float, width: float, height: float, colour: str, title: str) -> str:
    """Draw a filled rectangle that says what it is; it can be seen however short it is."""
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 1.0):.1f}" height="{height:.1f}" '
        f'rx="2" fill="{colour}"><title>{escape(title)}</title></rect>'
    )


def line(x: float, y: float, to_x: float, to_y: float, *, faint: bool = True) -> str:
    """Draw a line in the colour of text."""
    strength = ' stroke-opacity="0.25"' if faint else ""
    return (
        f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}" '
        f'stroke="currentColor"{strength}/>'
    )


def ticks(low: float, high: float) -> list[float]:
    """Return round numbers between two, about :data:`TICKS` intervals of 1, 2 or 5 times 10ⁿ."""
    span = high - low
    if not (span > 0 and math.isfinite(span)):
        return [low]
    power = 10.0 ** math.floor(math.log10(span / TICKS))
    step = next(power * many for many in (1, 2, 5, 10) if span / (power * many) <= TICKS * 1.5)
    first = math.ceil(low / step)
    return [step * number for number in range(first, math.floor(high / step + 1e-9) + 1)]


def time_ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Return round times between two, in ms and in words; all have one unit."""
    most = max(abs(low), abs(high))
    units = ((HOUR_MS, "h"), (MINUTE_MS, "min"), (SECOND_MS, "s"))
    unit, word = next((one for one in units if most >= 2 * one[0]), (1.0, "ms"))
    return [
        (value * unit, f"{'−' if value < 0 else ''}{abs(value):g} {word}")
        for value in ticks(low / unit, high / unit)
    ]


def time_axis(
    low: float, high: float, left: float, width: float, end: float, *, top: float = 0.0
) -> str:
    """Draw grid lines with times under them, from ``top`` to ``end``."""
    span = high - low or 1.0
    found = []
    for value, said in time_ticks(low, high):
        x = left + width * (value - low) / span
        found.append(line(x, top, x, end) + text(x, end + 15, said, anchor="middle"))
    return "".join(found)
