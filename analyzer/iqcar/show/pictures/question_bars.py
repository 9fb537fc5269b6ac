"""Draw answers to what-if questions: recorded and predicted, and what a capacity would bring."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from iqcar.base.limits import MOST_DRAWN_CHANGES
from iqcar.base.units import change_words, duration, percent
from iqcar.replay.whatif.plan_capacity import Plan
from iqcar.replay.whatif.what_if import RESOURCES, WhatIf
from iqcar.say.what_if_sentences import most_changed
from iqcar.show.pictures import drawing as svg
from iqcar.show.pictures.comparison_plots import BAR_PX, PAIR_PX, paired_bars
from iqcar.show.pictures.theme import AFTER, BEFORE
from iqcar.tables.arrays import Floats

WIDTH, PLANE = 980, 430
KEY_PX = 24
"""Height of the line that says what the marks are."""


def predicted_durations(answer: WhatIf, most: int = MOST_DRAWN_CHANGES) -> svg.Drawing:
    """Draw each query's recorded duration, the predicted one, and its range (80 %).

    most: queries at most, those that change most.
    """
    rows = most_changed(answer, most).to_dict("records")
    high = max((max(row["recorded_ms"], row["high_ms"]) for row in rows), default=0.0) or 1.0
    end = KEY_PX + svg.ROW_PX * max(len(rows), 1)
    found = [_key(), svg.time_axis(0.0, high, svg.LABEL_PX, PLANE, end, top=KEY_PX)]
    for place, row in enumerate(rows):
        y = KEY_PX + svg.ROW_PX * place + svg.ROW_PX / 2
        recorded, predicted, low, above = (
            svg.LABEL_PX + PLANE * row[name] / high
            for name in ("recorded_ms", "predicted_ms", "low_ms", "high_ms")
        )
        words = f"{duration(row['recorded_ms'])} → {duration(row['predicted_ms'])}"
        within = f"{duration(row['low_ms'])} … {duration(row['high_ms'])}"
        said = f"{row['name']}: recorded {words.replace('→', ', predicted')} ({within})"
        found += [
            svg.label(y + 4, row["name"]),
            f"<g><title>{svg.escape(said)}</title>{svg.line(recorded, y, predicted, y)}"
            f'<rect x="{low:.1f}" y="{y - 4:.1f}" width="{max(above - low, 1.0):.1f}" height="8" '
            f'rx="4" fill="{AFTER}" fill-opacity="0.35"/>{_dot(recorded, y, BEFORE)}'
            f"{_dot(predicted, y, AFTER)}</g>",
            svg.text(
                svg.LABEL_PX + PLANE + 14, y + 4, f"{words} ({change_words(row['change_percent'])})"
            ),
        ]
    said = f"Recorded and predicted duration of {len(rows)} queries, {answer.question.sentence()}"
    return svg.drawing(said, WIDTH, end + 22, found)


def waits_before_after(answer: WhatIf) -> svg.Drawing:
    """Draw what all queries waited for, recorded and predicted, by resource; sums over queries.

    A resource for which no query's waits are known is left out.
    """
    said = answer.queries[answer.queries["refused"] == ""]
    rows = [
        (
            resource,
            float(said[f"{resource}_wait_before_ms"].sum()),
            float(said[f"{resource}_wait_after_ms"].sum()),
        )
        for resource in RESOURCES
        if said[f"{resource}_wait_before_ms"].notna().any()
    ]
    return paired_bars(rows, f"Waits of all queries by resource, {answer.question.sentence()}")


def device_use(answer: WhatIf) -> svg.Drawing:
    """Draw how much of the time the busiest host's devices were in use, recorded and predicted."""
    rows = answer.capacities.to_dict("records")
    end = PAIR_PX * max(len(rows), 1)
    found = []
    for part in (0.0, 0.5, 1.0):
        x = svg.LABEL_PX + PLANE * part
        found += [svg.line(x, 0, x, end), svg.text(x, end + 15, percent(part), anchor="middle")]
    for place, row in enumerate(rows):
        top = PAIR_PX * place + 4
        found.append(svg.label(top + 17, row["resource"]))
        shares = (row["busy_before"], row["busy_after"])
        for number, (share, colour, word) in enumerate(
            zip(shares, (BEFORE, AFTER), ("recorded", "predicted"), strict=True)
        ):
            said = f"{row['resource']} {word}: {percent(share)} busy"
            width = PLANE * min(share, 1.0)
            found.append(
                svg.bar(
                    svg.LABEL_PX,
                    top + number * (BAR_PX + 1),
                    width,
                    height=BAR_PX,
                    colour=colour,
                    title=said,
                )
            )
        words = f"{percent(shares[0])} → {percent(shares[1])}"
        found.append(svg.text(svg.LABEL_PX + PLANE + 14, top + 17, words))
    said = f"Use of the busiest host's devices, {answer.question.sentence()}"
    return svg.drawing(said, WIDTH, end + 22, found)


def _dot(x: float, y: float, colour: str) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{colour}"/>'


def _key() -> str:
    """What the marks are."""
    left = svg.LABEL_PX
    return (
        f"{_dot(left + 5, 9, BEFORE)}{svg.text(left + 16, 13, 'recorded')}"
        f'<rect x="{left + 94}" y="5" width="26" height="8" rx="4" fill="{AFTER}" '
        f'fill-opacity="0.35"/>{_dot(left + 107, 9, AFTER)}'
        f"{svg.text(left + 128, 13, 'predicted, with its range (80 %)')}"
    )


PLAN_WIDTH, LEFT, CURVE_PX, CURVE_HIGH = 900, 90, 680, 240
TOP = 24


def capacity_plan(plan: Plan) -> svg.Drawing:
    """Draw the time of all queries with its range by value, the knee, and the cost if known.

    plan: from :meth:`iqcar.diagnosis.WhatIfs.plan`.
    """
    values = plan.values
    known = values[values["total_ms"].notna()]
    if known.empty:
        words = "Nothing is predicted"
        return svg.drawing(words, PLAN_WIDTH, svg.ROW_PX, [svg.text(0, 20, words)])
    x = known["value"].to_numpy(np.float64)
    low, high = float(x.min()), float(x.max())
    most = float(known["high_ms"].max()) * 1.05 or 1.0

    def across(value: float) -> float:
        return LEFT + CURVE_PX * ((value - low) / (high - low) if high > low else 0.5)

    def up(ms: float) -> float:
        return TOP + CURVE_HIGH * (1 - ms / most)

    found = []
    for ms, words in svg.time_ticks(0.0, most):
        y = up(ms)
        found += [svg.line(LEFT, y, LEFT + CURVE_PX, y), svg.text(0, y + 4, words)]
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
        title = svg.escape(f"{value:g} {plan.of_what}: {duration(ms)}{price}")
        found.append(
            f'<circle cx="{across(value):.1f}" cy="{up(ms):.1f}" r="5" fill="{AFTER}">'
            f"<title>{title}</title></circle>"
        )
        found.append(svg.text(across(value), TOP + CURVE_HIGH + 18, f"{value:g}", anchor="middle"))
    if plan.price is not None and np.isfinite(known["cost"]).all() and known["cost"].max() > 0:
        cost = known["cost"].to_numpy(np.float64)
        scaled = cost / cost.max() * most
        found.append(_curve(x, scaled, BEFORE, across, up, dashed=True))
        found.append(svg.text(LEFT + CURVE_PX + 14, up(scaled[-1]) + 4, f"cost {cost[-1]:.4g}"))
    marked: dict[int, str] = {plan.recorded: "recorded"}
    if plan.knee is not None:
        marked[plan.knee] = "knee, recorded" if plan.knee == plan.recorded else "knee"
    for value, words in marked.items():
        if low <= value <= high:
            found.append(svg.line(across(value), TOP, across(value), TOP + CURVE_HIGH, faint=False))
            found.append(svg.text(across(value) + 4, TOP - 8, words))
    found.append(
        svg.text(LEFT + CURVE_PX / 2, TOP + CURVE_HIGH + 38, plan.of_what, anchor="middle")
    )
    knee = "more gain nothing" if plan.knee is None else f"the knee is at {plan.knee}"
    label = f"Time of all queries from {low:g} to {high:g} {plan.of_what}: {knee}"
    return svg.drawing(label, PLAN_WIDTH, TOP + CURVE_HIGH + 46, found)


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
