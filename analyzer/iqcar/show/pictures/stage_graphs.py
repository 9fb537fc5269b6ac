"""Draw the stage graphs of a query before and after side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from iqcar.base.formatting import short
from iqcar.base.limits import MOST_STAGES
from iqcar.show.pictures.drawing import Drawing, drawing, escape, text
from iqcar.show.pictures.palette import ADDED, GONE, OTHERS, SLOWER

PANEL_PX, NODE_PX, INDENT_PX = 460, 46, 22
MOST_INDENT = 8
"""Depth beyond which nodes are not indented further."""
LETTER_PX = 7.4
STROKE_PX = 3
"""Width of the edge of a stage that changed; of another half of it."""
COLOURS = {"added": ADDED, "gone": GONE, "changed": SLOWER, "": OTHERS}


class StageNode(NamedTuple):
    """A stage in a graph, readers before what they read.

    Attributes
    ----------
    depth : int
        Stages between it and the query's end.
    label : str
    status : str
        ``added``, ``gone``, ``changed`` or empty.
    facts : str
        Partitions and time, in words.
    again : bool
        Whether it was drawn before, for another reader.
    """

    depth: int
    label: str
    status: str
    facts: str
    again: bool = False


def stage_graphs(before: Sequence[StageNode], after: Sequence[StageNode]) -> Drawing:
    """Draw two graphs, each from the last stage down to what it reads, one stage a line.

    At most :data:`~iqcar.base.limits.MOST_STAGES` stages of each are drawn; the others are counted.
    """
    found: list[str] = []
    for number, (nodes, name) in enumerate(((before, "before"), (after, "after"))):
        left = STROKE_PX + number * (PANEL_PX + 20)
        found.append(text(left, 14, name, weight=650))
        if not nodes:
            found.append(text(left, 44, "no stage"))
        found += _panel(nodes[:MOST_STAGES], left)
        if len(nodes) > MOST_STAGES:
            y = 24 + NODE_PX * MOST_STAGES + 14
            found.append(text(left, y, f"{len(nodes) - MOST_STAGES} more stages"))
    most = min(max(len(before), len(after), 1), MOST_STAGES)
    said = f"Stage graphs: {len(before)} stages before, {len(after)} after"
    return drawing(said, 2 * (PANEL_PX + STROKE_PX) + 20, 24 + NODE_PX * most + 22, found)


def _panel(nodes: Sequence[StageNode], left: float) -> list[str]:
    found: list[str] = []
    last_at: dict[int, float] = {}
    for place, node in enumerate(nodes):
        x = left + INDENT_PX * min(node.depth, MOST_INDENT)
        y = 24 + NODE_PX * place
        colour = COLOURS[node.status]
        dash = ' stroke-dasharray="4 3"' if node.status == "gone" or node.again else ""
        strong = STROKE_PX if node.status else STROKE_PX / 2
        if node.depth > 0 and node.depth - 1 in last_at:
            from_x = left + INDENT_PX * min(node.depth - 1, MOST_INDENT) + 8
            found.append(
                f'<path d="M{from_x:.1f} {last_at[node.depth - 1]:.1f}V{y + 19:.1f}H{x:.1f}" '
                f'fill="none" stroke="{colour}" stroke-width="{strong}"{dash}/>'
            )
        width = left + PANEL_PX - x
        facts = " · ".join(part for part in (node.status, node.facts) if part)
        facts = "drawn above, read again" if node.again else facts
        letters = int((width - 16) / LETTER_PX)
        found.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{NODE_PX - 8}" rx="5" '
            f'fill="{colour}" fill-opacity="0.12" stroke="{colour}" stroke-width="{strong}"{dash}>'
            f"<title>{escape(short(node.label, 300))}</title></rect>"
        )
        found.append(text(x + 8, y + 16, short(node.label, letters), weight=600))
        found.append(text(x + 8, y + 32, short(facts, letters)))
        last_at[node.depth] = y + NODE_PX - 8
    return found
