"""Figures of :mod:`iqcar.show.pictures` for the page, which fills them with what is chosen.

The browser narrows and redraws, so it takes traces and layout from the same functions that
notebooks call, and puts in the numbers that are left after each choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from iqcar.base.limits import MOST_BLAMED, MOST_NODES, MOST_WITH_TEXT
from iqcar.diagnosis import Diagnosis
from iqcar.show.pictures import heatmap, matrix, sankey
from iqcar.show.pictures.sankey import LINK_OPACITY, NODE_PX
from iqcar.show.pictures.theme import DARK, FRAME_PX, LIGHT, ROW_PX, Theme, scale, template

_DATA = {
    "heatmap": ("z", "zmax", "text", "hovertext", "x", "y", "colorscale"),
    "sankey": ("node.label", "node.color", "node.customdata", "link"),
}
"""What the browser puts in itself, by kind of trace."""
_LAID_OUT = ("template", "title", "height", "bargap", "shapes")
"""What of a layout belongs to the figure's own numbers."""


def figures_payload(diagnosis: Diagnosis, explored: Sequence[int]) -> dict[str, Any]:
    """Both looks, and a pattern per picture that is redrawn.

    Parameters
    ----------
    explored : rows of queries that lost time, as many as the page has; the first one's figures
        are the patterns.
    """
    patterns = {}
    if explored:
        graph, first = diagnosis.graph, explored[0]
        patterns = {
            "matrix": _pattern(matrix(graph)),
            "heatmap": _pattern(
                heatmap(graph, diagnosis.tables, diagnosis.waits, diagnosis.blame, first)
            ),
            "sankey": _pattern(sankey(graph, first)),
        }
    return {
        "looks": {"light": _look(LIGHT, dark=False), "dark": _look(DARK, dark=True)},
        "patterns": patterns,
        "nodes": MOST_NODES,
        "blamed": MOST_BLAMED,
        "withText": MOST_WITH_TEXT,
        "linkOpacity": LINK_OPACITY,
        "px": {"node": NODE_PX, "row": ROW_PX, "frame": FRAME_PX},
    }


def _look(theme: Theme, *, dark: bool) -> dict[str, Any]:
    return {
        "template": template(dark).to_plotly_json(),
        "scale": scale(dark),
        "ink": theme.ink,
        "faint": theme.faint,
        "line": theme.line,
        "paper": theme.paper,
    }


def _pattern(figure: Any) -> dict[str, Any] | None:
    """First trace and layout of a figure, without its data, size and heading."""
    plain = figure.to_plotly_json()
    if not plain["data"]:
        return None
    trace = dict(plain["data"][0])
    for path in _DATA[trace["type"]]:
        outer, _, inner = path.partition(".")
        if inner:
            trace[outer] = {k: v for k, v in trace[outer].items() if k != inner}
        else:
            trace.pop(outer, None)
    layout = plain["layout"]
    kept = {k: v for k, v in layout.items() if k not in _LAID_OUT}
    for axis in ("xaxis", "yaxis"):
        if axis in kept:
            gone = ("tickvals", "ticktext", "range")
            kept[axis] = {k: v for k, v in kept[axis].items() if k not in gone}
    for note in kept.get("annotations", ()):
        note.get("font", {}).pop("color", None)
    return {"trace": trace, "layout": kept}
