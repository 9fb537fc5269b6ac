"""The light and the dark look of figures, and what is drawn where there is nothing to draw."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from iqcar.show.pictures.palette import MISSING

if TYPE_CHECKING:
    import plotly.graph_objects as go

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif"
FONT_SIZE = 13
ROW_PX = 26
"""Height of one labelled row: a line of text and room around it."""
FRAME_PX = 130
"""Height of a figure's title, axis and legend together."""

LEGEND_PX = 20
"""Height of a line of a legend."""
LEGEND_LINE_PX = 820.0
"""Width that a line of a legend has in a page of 1280 pixels, labels of rows beside it."""
LEGEND_ITEM_PX, CHARACTER_PX = 48.0, 7.2
"""Width of an item's mark, and of a letter."""


@dataclass(frozen=True)
class Theme:
    """Colours of one look.

    Attributes
    ----------
    paper, ink, faint, line : background, text, text of less weight, grid lines
    amounts : colour scale of amounts, from nothing to the largest
    ink_on_most : text on the scale's last colour
    """

    paper: str
    ink: str
    faint: str
    line: str
    amounts: tuple[str, ...]
    ink_on_most: str


LIGHT = Theme(
    paper="#ffffff",
    ink="#1d2329",
    faint="#59636e",
    line="#dde2e7",
    amounts=("#f4f6f8", "#d3e0ec", "#97bcd9", "#4f8fc0", "#1f5f99", "#0b3a66"),
    ink_on_most="#ffffff",
)
DARK = Theme(
    paper="#14181d",
    ink="#e6eaee",
    faint="#a1abb5",
    line="#333b44",
    amounts=("#1d242b", "#1f3a54", "#235f8f", "#3a8bc4", "#7dbbe3", "#d3ecfb"),
    ink_on_most="#0b1a26",
)


def theme(dark: bool) -> Theme:
    """Return the dark or the light look."""
    return DARK if dark else LIGHT


def template(dark: bool = False) -> go.layout.Template:
    """Plotly template of a look; a page can switch a figure by giving it the other one."""
    import plotly.graph_objects as go

    look = theme(dark)
    axis = {
        "gridcolor": look.line,
        "linecolor": look.line,
        "zerolinecolor": look.line,
        "automargin": True,
        "title": {"font": {"color": look.faint, "size": FONT_SIZE}, "standoff": 8},
        "tickfont": {"color": look.ink},
    }
    return go.layout.Template(
        layout={
            "autotypenumbers": "strict",  # a name such as 2024 is no number
            "paper_bgcolor": look.paper,
            "plot_bgcolor": look.paper,
            "font": {"family": FONT, "size": FONT_SIZE, "color": look.ink},
            "title": {
                "font": {"size": 15, "color": look.ink},
                "x": 0,
                "xref": "paper",
                "y": 1,
                "yref": "container",
                "yanchor": "top",
                "pad": {"t": 18},
            },
            "xaxis": axis,
            "yaxis": axis,
            "legend": {"font": {"color": look.ink}, "bgcolor": "rgba(0,0,0,0)"},
            "hoverlabel": {
                "bgcolor": look.paper,
                "bordercolor": look.faint,
                "align": "left",
                "font": {"family": FONT, "size": FONT_SIZE, "color": look.ink},
            },
            "margin": {"l": 8, "r": 16, "t": 64, "b": 48},
            "colorway": [look.faint],
            "annotationdefaults": {"font": {"color": look.ink}},
        }
    )


def figure(traces: Sequence[Any], title: str, *, dark: bool, height: int, **layout: Any) -> Any:
    """Make a figure in a look.

    Parameters
    ----------
    title : str
        What is seen, as a sentence; already safe to show (:mod:`iqcar.show.pictures.labels`).
    height : int
        In pixels; the width follows the page.
    """
    import plotly.graph_objects as go

    look = {"template": template(dark), "title": {"text": title}, "height": height, **layout}
    return go.Figure(list(traces), look)  # updating a figure's layout takes four times as long


def nothing(sentence: str, *, dark: bool) -> Any:
    """Make a figure that says why there is nothing to see; the sentence is safe to show."""
    hidden = {"visible": False}
    made = figure([], "", dark=dark, height=FRAME_PX, xaxis=hidden, yaxis=hidden)
    made.add_annotation(
        text=sentence,
        x=0.5,
        y=0.5,
        xref="paper",
        yref="paper",
        showarrow=False,
        font={"color": theme(dark).faint, "size": FONT_SIZE + 1},
    )
    return made


def legend_above(names: Sequence[str]) -> dict[str, Any]:
    """Layout with a legend between title and picture, and room for as many lines as it needs."""
    width = sum(LEGEND_ITEM_PX + CHARACTER_PX * len(name) for name in names)
    lines = max(1, math.ceil(width / LEGEND_LINE_PX))
    return {
        "margin": {"l": 8, "r": 16, "t": 48 + LEGEND_PX * lines, "b": 48},
        "legend": {
            "orientation": "h",
            "y": 1.0,
            "yanchor": "bottom",
            "x": 0,
            "traceorder": "normal",
        },
    }


def hatched(dark: bool) -> dict[str, Any]:
    """Marker of what was not recorded: grey hatching, never a colour that means an amount."""
    return {
        "color": "rgba(0,0,0,0)",
        "line": {"width": 0},
        "pattern": {
            "shape": "/",
            "fgcolor": MISSING,
            "bgcolor": theme(dark).paper,
            "fgopacity": 1,
            "size": 6,
            "solidity": 0.25,
        },
    }


def scale(dark: bool) -> list[list[Any]]:
    """Colour scale of amounts as Plotly wants it."""
    colours = theme(dark).amounts
    return [[i / (len(colours) - 1), colour] for i, colour in enumerate(colours)]
