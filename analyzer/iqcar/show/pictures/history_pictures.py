"""Draws what a store answers: runs of a query over time, and who lost to whom."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from iqcar.base.units import DAYS, duration, moment, percent, resource_name
from iqcar.history.ask_store import QueryChange, told_duration
from iqcar.show.pictures import drawing as svg
from iqcar.show.pictures.theme import AFTER, BEFORE

WIDTH, LEFT, PLANE, HEIGHT = 900, 90, 780, 260
MOST_RUNS = 500
MOST_ROWS = 15
BAR_PX = 14


def runs_over_time(runs: pd.DataFrame, changes: Sequence[QueryChange]) -> svg.Drawing:
    """Draw each run as a line up to its duration, its part lost to others apart, and changes.

    runs: from :func:`iqcar.history.trend`; of more than :data:`MOST_RUNS` the last ones.
    changes: drawn as lines with the medians before and after.
    """
    shown = runs[np.isfinite(runs["start_ms"]) & np.isfinite(runs["duration_ms"])].tail(MOST_RUNS)
    if shown.empty:
        return svg.drawing(
            "No run with a known duration", WIDTH, svg.ROW_PX, [svg.text(0, 16, "no runs")]
        )
    start = shown["start_ms"].to_numpy(np.float64)
    low, high = float(start.min()), float(start.max())
    span = high - low or 1.0
    most = float(shown["duration_ms"].max()) * 1.05 or 1.0

    def across(ms: float) -> float:
        return LEFT + 8 + (PLANE - 16) * (ms - low) / span

    def up(ms: float) -> float:
        return HEIGHT * (1.0 - ms / most)

    found = []
    for value in svg.ticks(0.0, most):
        found += [svg.line(LEFT, up(value), LEFT + PLANE, up(value))]
        found += [svg.text(LEFT - 8, up(value) + 4, duration(value), anchor="end")]
    for at in (low, high) if high > low else (low,):
        found.append(
            svg.text(
                across(at), HEIGHT + 18, moment(at, DAYS), anchor="start" if at == low else "end"
            )
        )
    for run in shown.itertuples():
        lost = min(max(float(run.lost_to_others_ms), 0.0), float(run.duration_ms))
        own = float(run.duration_ms) - lost
        said = f"{moment(run.start_ms, DAYS)}: {told_duration(run)}"
        if lost > 0:
            said += f", {duration(lost)} of it lost to others, most to {run.source}"
        x = across(float(run.start_ms)) - 2
        found.append(svg.bar(x, up(own), 4, height=HEIGHT - up(own), colour=BEFORE, title=said))
        if lost > 0:
            found.append(
                svg.bar(
                    x, up(own + lost), 4, height=up(own) - up(own + lost), colour=AFTER, title=said
                )
            )
    for change in changes:
        if low <= change.at_ms <= high:
            x = across(change.at_ms) - 5
            said = (
                f"{moment(change.at_ms, DAYS)}: {duration(change.before_ms)} → "
                f"{duration(change.after_ms)}"
            )
            found.append(
                f"<g><title>{svg.escape(said)}</title>{svg.line(x, 0, x, HEIGHT, faint=False)}</g>"
            )
            found.append(svg.text(x + 6, 12, said))
    days = f"from {moment(low, DAYS)} to {moment(high, DAYS)}"
    counts = f"{len(shown)} runs {days}, {len(changes)} lasting changes"
    return svg.drawing(f"Durations of {counts}", WIDTH, HEIGHT + 26, found)


def losses_to_others(losses: pd.DataFrame) -> svg.Drawing:
    """Draw the largest losses of a victim to a source as bars.

    losses: from :func:`iqcar.history.who`.
    """
    shown = losses.head(MOST_ROWS)
    most = float(shown["lost_ms"].max()) if len(shown) else 1.0
    height = svg.ROW_PX * max(len(shown), 1)
    plane = WIDTH - 2 * svg.LABEL_PX
    found = [svg.time_axis(0.0, most, svg.LABEL_PX, plane, height)]
    for place, row in enumerate(shown.itertuples()):
        y = svg.ROW_PX * place
        found.append(svg.label(y + 16, f"{row.victim} to {row.source}"))
        said = f"{duration(row.lost_ms)} for {resource_name(row.resource)}, {percent(row.share)}"
        whole = f"{row.victim} lost to {row.source}: {said}"
        found.append(
            svg.bar(
                svg.LABEL_PX,
                y + 5,
                plane * row.lost_ms / most,
                height=BAR_PX,
                colour=AFTER,
                title=whole,
            )
        )
        found.append(svg.text(svg.LABEL_PX + plane + 14, y + 16, said))
    return svg.drawing("Largest losses to others", WIDTH, height + 22, found)
