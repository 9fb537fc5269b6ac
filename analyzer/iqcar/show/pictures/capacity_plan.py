"""Draw a capacity plan: time of all queries, range, and cost by number of executors or slots."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from iqcar.base.units import duration
from iqcar.replay.whatif.plan_capacity import Plan
from iqcar.show.pictures.drawing import ROW_PX, Drawing, drawing, escape, line, text
from iqcar.show.pictures.palette import AFTER, BEFORE
from iqcar.tables.arrays import Floats

WIDTH, LEFT, PLANE, HEIGHT = 900, 90, 680, 240
TOP = 24
LINES = 4


def capacity_plan(plan: Plan) -> Drawing:
    """Draw the time of all queries with its range by value, the knee, and the cost if known.

    Parameters
    ----------
    plan : Plan
        From :meth:`iqcar.diagnosis.WhatIfs.plan`.
    """
    values = plan.values
    known = values[values["total_ms"].notna()]
    if known.empty:
        return drawing("Nothing is predicted", WIDTH, ROW_PX, [text(0, 20, "Nothing is predicted")])
    x = known["value"].to_numpy(np.float64)
    low, high = float(x.min()), float(x.max())
    most = float(known["high_ms"].max()) * 1.05 or 1.0

    def across(value: float) -> float:
        return LEFT + PLANE * ((value - low) / (high - low) if high > low else 0.5)

    def up(ms: float) -> float:
        return TOP + HEIGHT * (1 - ms / most)

    found = []
    for k in range(LINES + 1):
        y = up(most * k / LINES)
        found += [line(LEFT, y, LEFT + PLANE, y), text(0, y + 4, duration(most * k / LINES))]
    total, least, largest = (
        known[c].to_numpy(np.float64) for c in ("total_ms", "low_ms", "high_ms")
    )
    band = [f"{across(a):.1f},{up(b):.1f}" for a, b in zip(x, largest, strict=True)]
    band += [f"{across(a):.1f},{up(b):.1f}" for a, b in zip(x[::-1], least[::-1], strict=True)]
    found.append(f'<polygon points="{" ".join(band)}" fill="{AFTER}" fill-opacity="0.15"/>')
    found.append(_curve(x, total, AFTER, across, up))
    names = known["cost"].tolist()
    for value, ms, cost in zip(x.tolist(), total.tolist(), names, strict=True):
        price = "" if plan.price is None else f", cost {cost:.4g}"
        title = escape(f"{value:g} {plan.of_what}: {duration(ms)}{price}")
        found.append(
            f'<circle cx="{across(value):.1f}" cy="{up(ms):.1f}" r="5" fill="{AFTER}">'
            f"<title>{title}</title></circle>"
        )
        found.append(text(across(value), TOP + HEIGHT + 18, f"{value:g}", anchor="middle"))
    if plan.price is not None and np.isfinite(known["cost"]).all() and known["cost"].max() > 0:
        cost = known["cost"].to_numpy(np.float64)
        found.append(_curve(x, cost / cost.max() * most, BEFORE, across, up, dashed=True))
        found.append(
            text(LEFT + PLANE + 14, up(cost[-1] / cost.max() * most) + 4, f"cost {cost[-1]:.4g}")
        )
    marked: dict[int, str] = {plan.recorded: "recorded"}
    if plan.knee is not None:
        marked[plan.knee] = "knee, recorded" if plan.knee == plan.recorded else "knee"
    for value, words in marked.items():
        if low <= value <= high:
            found.append(line(across(value), TOP, across(value), TOP + HEIGHT, faint=False))
            found.append(text(across(value) + 4, TOP - 8, words))
    found.append(text(LEFT + PLANE / 2, TOP + HEIGHT + 38, plan.of_what, anchor="middle"))
    knee = "more gain nothing" if plan.knee is None else f"the knee is at {plan.knee}"
    label = f"Time of all queries from {low:g} to {high:g} {plan.of_what}: {knee}"
    return drawing(label, WIDTH, TOP + HEIGHT + 46, found)


def _curve(
    x: Floats,
    y: Floats,
    colour: str,
    across: Callable[[float], float],
    up: Callable[[float], float],
    *,
    dashed: bool = False,
) -> str:
    points = " ".join(f"{across(a):.1f},{up(b):.1f}" for a, b in zip(x, y, strict=True))
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>'
