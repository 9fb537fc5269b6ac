"""The look of figures, light or dark, and names from logs as labels in them.

Plotly turns ``<b>``, ``<a href>`` and ``<br>`` in labels and hover texts into markup, and what is
between dollar signs into formulas where a page has MathJax. Names come from logs: they are shown
as they are written, shortened, on as many lines as they need.
"""

from __future__ import annotations

import hashlib
import math
import textwrap
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from iqcar.base.units import LINES, percent, printable, run_numbers, short
from iqcar.enums import BlameKind, Resource
from iqcar.tables import texts

RESOURCE_COLOURS: dict[Resource, str] = {
    Resource.SLOTS: "#0072B2",
    Resource.EXECUTORS: "#7C4DDB",
    Resource.CPU: "#D55E00",
    Resource.MEMORY: "#CC79A7",
    Resource.NETWORK: "#009E73",
    Resource.IO: "#E69F00",
}
"""Okabe and Ito's, but for yellow and sky blue, which are too pale on white, and a violet."""

BLAME_COLOURS: dict[BlameKind, str] = {
    BlameKind.QUERY: "#B5345A",
    BlameKind.OWN: "#56B4E9",
    BlameKind.KNOWN: "#8F7A3A",
    BlameKind.UNATTRIBUTED: "#A3A8AE",
    BlameKind.REST: "#737980",
}
"""Other queries stand out; what nobody can be blamed for is grey."""

COMPUTING = "#7FA8C9"
"""Time in which a task was computing or waited for nothing worth telling."""
OTHERS = "#8A9099"
"""Everything folded into one row or part."""
MISSING = "#9AA0A6"
"""Hatching of what nobody recorded."""

PHASE_COLOURS = {
    "read": "#E69F00",
    "compute": COMPUTING,
    "fetch": "#009E73",
    "write": "#8C5A00",
    "spill": "#CC79A7",
    "wait": "#D55E00",
}
"""Phases of tasks, like the resources that dominate in them; writing is darker than reading."""

BEFORE, AFTER = "#6F7BB8", "#D07A1E"
"""The sides of a comparison."""
SLOWER, FASTER = "#C8443A", "#2A86C8"
"""What a change adds, and what it takes away."""
ADDED, GONE = "#35A873", "#858B92"
"""Stages and queries on one side only."""

_HUES = (
    "#CC6677", "#3D7CC9", "#B8A13A", "#2E8B57", "#AA4499", "#44AA99", "#E07B39", "#6A5ACD",
    "#88A943", "#C8322B", "#0E7C8C", "#8F4F3F",
)  # fmt: skip
"""Tol's muted palette and its neighbours, light enough for a dark page, dark enough for a white
one; hues far apart follow one another."""
_TINTS = (0.0, 0.38, -0.32)
"""When all hues are taken they come again lighter, then darker: parts of white, or of black."""


def mix(colour: str, part: float) -> str:
    """Mix a colour with a part of white, or of black where the part is negative."""
    towards = 255 if part > 0 else 0
    share = abs(part)
    channels = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(c + (towards - c) * share):02x}" for c in channels)


def rgba(colour: str, alpha: float) -> str:
    """Write a colour with an opacity, as CSS has it."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha:g})"


def stable_colours(keys: Sequence[str]) -> list[str]:
    """One colour per key: equal keys share one, and a key keeps its own in other inputs.

    The key's hash says where in the palette to look first; a key that finds its place taken gets
    the next free one, until all are taken.
    """
    places = [mix(hue, tint) for tint in _TINTS for hue in _HUES]
    taken: dict[int, str] = {}
    chosen: dict[str, str] = {}
    for key in keys:
        if key in chosen:
            continue
        at = int.from_bytes(hashlib.blake2b(key.encode(), digest_size=4).digest(), "big")
        first = at % len(_HUES)
        # Pure hues first: two queries side by side should not differ by their lightness alone.
        order = [
            tint * len(_HUES) + (first + step) % len(_HUES)
            for tint in range(len(_TINTS))
            for step in range(len(_HUES))
        ]
        free = next((place for place in order if place not in taken), order[0])
        taken[free] = key
        chosen[key] = places[free]
    return [chosen[key] for key in keys]


def cause_colour(kind: BlameKind, resource: Resource | None = None) -> str:
    """Colour of a cause that is no query; known causes differ in tint by what was waited for."""
    tint = 0.3 if kind is BlameKind.KNOWN and resource is Resource.CPU else 0.0
    return mix(BLAME_COLOURS[kind], tint) if tint else BLAME_COLOURS[kind]


def query_colours(queries: pd.DataFrame) -> list[str]:
    """Colour of each query by row: runs of the same recurring query share one."""
    pairs = zip(texts(queries, "fingerprint"), texts(queries, "query_id"), strict=True)
    return stable_colours([fingerprint or query_id for fingerprint, query_id in pairs])


Figure = Any
"""A ``plotly.graph_objects.Figure``; Plotly is imported when the first one is drawn."""

LABEL_WIDTH = 36
"""Characters of a name beside a bar or a node; longer ones would take the room of the picture."""
NUMBER_WIDTH = 24
"""Characters of what tells runs of one query apart."""
HOVER_WIDTH = 64
"""Characters per line of a hover text."""
HOVER_NAME = 320
"""Characters of a name in a hover text: about five lines; SQL texts have thousands."""

_FIRST_STRONG_ISOLATE, _POP_ISOLATE = "\u2068", "\u2069"

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif"
FONT_SIZE = 13
ROW_PX = 26
"""Height of one labelled row: a line of text and room around it."""
FRAME_PX = 130
"""Height of a figure's title, axis and legend together."""

LEGEND_PX = 20
"""Height of a line of a legend."""
LEGEND_LINE_PX = 620.0
"""Width of a line of a legend in the narrowest picture of a page, beside labels of rows."""
LEGEND_ITEM_PX, CHARACTER_PX = 48.0, 7.2
"""Width of an item's mark, and of a letter."""

CLEAR = "rgba(0,0,0,0)"
HATCHED: dict[str, Any] = {
    "color": CLEAR,
    "line": {"width": 0},
    "pattern": {
        "shape": "/", "fgcolor": MISSING, "bgcolor": CLEAR, "fgopacity": 1, "size": 6,
        "solidity": 0.25,
    },
}  # fmt: skip
"""Marker of what was not recorded: grey hatching, never a colour that means an amount."""


@dataclass(frozen=True)
class Theme:
    """Colours of one look.

    paper, ink, faint, line: background, text, text of less weight, grid lines
    amounts: colour scale of amounts, from nothing to the largest
    """

    paper: str
    ink: str
    faint: str
    line: str
    amounts: tuple[str, ...]


LIGHT = Theme(
    paper="#ffffff",
    ink="#1d2329",
    faint="#59636e",
    line="#dde2e7",
    amounts=("#f4f6f8", "#d3e0ec", "#97bcd9", "#4f8fc0", "#1f5f99", "#0b3a66"),
)
DARK = Theme(
    paper="#14181d",
    ink="#e6eaee",
    faint="#a1abb5",
    line="#333b44",
    amounts=("#1d242b", "#1f3a54", "#235f8f", "#3a8bc4", "#7dbbe3", "#d3ecfb"),
)


def theme(dark: bool) -> Theme:
    """Return the dark or the light look."""
    return DARK if dark else LIGHT


def template(dark: bool = False) -> Figure:
    """Plotly template of a look: all that figures have in common and all that differs by look.

    A page shows a figure in the other look by giving it the other template.
    """
    import plotly.graph_objects as go

    look = theme(dark)
    small = {"color": look.faint, "size": FONT_SIZE}
    plain = {"family": FONT, "size": FONT_SIZE, "color": look.ink}
    axis = {
        "gridcolor": look.line, "linecolor": look.line, "zerolinecolor": look.line,
        "automargin": True, "tickfont": {"color": look.ink},
        "title": {"font": small, "standoff": 8},
    }  # fmt: skip
    layout = {
        "autotypenumbers": "strict",  # a name such as 2024 is no number
        "paper_bgcolor": look.paper,
        "plot_bgcolor": look.paper,
        "font": plain,
        "title": {
            "font": {"size": 15, "color": look.ink}, "x": 0, "xref": "paper",
            "y": 1, "yref": "container", "yanchor": "top", "pad": {"t": 18},
        },
        "xaxis": {**axis, "ticklabelstandoff": 6},
        "yaxis": axis,
        "legend": {"font": {"color": look.ink}, "bgcolor": CLEAR},
        "hoverlabel": {
            "bgcolor": look.paper, "bordercolor": look.faint, "align": "left", "font": plain,
        },
        "margin": {"l": 8, "r": 16, "t": 64, "b": 48},
        "colorway": [look.ink],
        "annotationdefaults": {"font": {"color": look.ink}},
        "shapedefaults": {"line": {"color": look.ink}},
    }  # fmt: skip
    steps = len(look.amounts) - 1
    heatmap = {
        "colorscale": [[step / steps, colour] for step, colour in enumerate(look.amounts)],
        "showscale": False, "hoverongaps": False, "hoverinfo": "text", "xgap": 2, "ygap": 2,
    }  # fmt: skip
    said = {"hovertemplate": "%{customdata}<extra></extra>"}
    sankey = {
        "arrangement": "snap",
        "valueformat": ".0%",
        "node": {"pad": 16, "thickness": 16, "line": {"width": 0}, **said},
        "link": said,
    }
    return go.layout.Template(layout=layout, data={"heatmap": [heatmap], "sankey": [sankey]})


def figure(traces: Sequence[Any], title: str, *, dark: bool, height: int, **layout: Any) -> Figure:
    """Make a figure in a look.

    traces: as Plotly has them, each with its ``type``.
    title: what is seen, as a sentence; already :func:`safe` to show.
    height: in pixels; the width follows the page.
    """
    import plotly.graph_objects as go

    look = {"template": template(dark), "title": {"text": title}, "height": height, **layout}
    return go.Figure(list(traces), look)  # updating a figure's layout takes four times as long


def nothing(sentence: str, *, dark: bool) -> Figure:
    """Make a figure that says why there is nothing to see; the sentence is safe to show."""
    hidden = {"visible": False}
    note = {
        "text": sentence, "x": 0.5, "y": 0.5, "xref": "paper", "yref": "paper",
        "showarrow": False, "font": {"color": theme(dark).faint, "size": FONT_SIZE + 1},
    }  # fmt: skip
    return figure(
        [], "", dark=dark, height=FRAME_PX, xaxis=hidden, yaxis=hidden, annotations=[note]
    )


def names_axis(names: Sequence[str], *, down: bool = False) -> dict[str, Any]:
    """Lay out an axis with a name at 0, 1, and so on, ``down`` from the top or to the right."""
    ends = [-0.5, len(names) - 0.5]
    return {
        "tickmode": "array",
        "tickvals": list(range(len(names))),
        "ticktext": list(names),
        "range": ends[::-1] if down else ends,
        "showgrid": False,
        "zeroline": False,
    }


def axes_of(number: int) -> str:
    """What Plotly puts behind the names of the axes of a picture's first, second, … part."""
    return str(number) if number > 1 else ""


def domains(count: int, gap: float) -> list[list[float]]:
    """Divide a picture's side in equal parts with a gap between two, as shares from 0 to 1."""
    size = (1 - gap * (count - 1)) / count
    return [[at * (size + gap), min(at * (size + gap) + size, 1.0)] for at in range(count)]


def legend_above(names: Sequence[str]) -> dict[str, Any]:
    """Layout with a legend between title and picture, and room for as many lines as it needs."""
    width = sum(LEGEND_ITEM_PX + CHARACTER_PX * len(name) for name in names)
    lines = max(1, math.ceil(width / LEGEND_LINE_PX))
    return {
        "margin": {"l": 8, "r": 16, "t": 48 + LEGEND_PX * lines, "b": 48},
        "legend": {
            "orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0, "traceorder": "normal",
        },
    }  # fmt: skip


def safe(text: str) -> str:
    """Escape what Plotly would take for markup or a formula; keep right-to-left text to itself."""
    text = printable(text, LINES)
    escaped = (
        text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("$", "&#36;")
    )
    if any(unicodedata.bidirectional(c) in ("R", "AL", "AN") for c in text):
        # Without this, a number that follows such a name would be drawn before it.
        return f"{_FIRST_STRONG_ISOLATE}{escaped}{_POP_ISOLATE}"
    return escaped


def label(name: str, width: int = LABEL_WIDTH) -> str:
    """One short line of a name, safe beside a bar or a node."""
    return safe(short(name, width)) or "(no name)"


def wrapped(name: str, width: int = HOVER_NAME) -> str:
    """Write a name over several lines, safe in a hover text."""
    lines = textwrap.wrap(short(printable(name), width), HOVER_WIDTH, break_on_hyphens=False)
    return "<br>".join(safe(line) for line in lines) or "(no name)"


def distinct(names: Sequence[str], ids: Sequence[str], width: int = LABEL_WIDTH) -> list[str]:
    """Label things; where several have one name, add the end of each id."""
    lines = [short(name, width) for name in names]
    several = (
        {line for line in lines if lines.count(line) > 1} if len(lines) < 2_000 else set(lines)
    )
    ends = run_numbers(ids, lines)
    return [
        safe(f"{short(line, max(width - len(end) - 1, 8))} {short(end, NUMBER_WIDTH)}".strip())
        if line in several
        else safe(line) or "(no name)"
        for line, end in zip(lines, ends, strict=True)
    ]


def percent_text(part: float) -> str:
    """Write a share as :func:`~iqcar.base.units.percent`; its ``<1 %`` is no markup either."""
    return safe(percent(part))
