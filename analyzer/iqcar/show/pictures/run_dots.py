"""Draw every run of both sides as a dot: means alone would hide how runs vary."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from iqcar.base.limits import MOST_RUN_DOTS
from iqcar.base.units import duration
from iqcar.show.pictures.drawing import ROW_PX, Drawing, drawing, escape, line, text, time_axis
from iqcar.show.pictures.palette import AFTER, BEFORE

WIDTH, LEFT, PLANE = 900, 90, 680


def run_dots(before_ms: Sequence[float], after_ms: Sequence[float]) -> Drawing:
    """Draw a row of dots for each side, and a line at its mean.

    Parameters
    ----------
    before_ms, after_ms : sequence of float
        Time in each run, ms.
    """
    sides = [np.asarray(values, np.float64) for values in (before_ms, after_ms)]
    every = np.concatenate(sides)
    low, high = (float(every.min()), float(every.max())) if len(every) else (0.0, 1.0)
    room = 0.08 * (high - low) or 0.05 * high or 1.0
    low, high = max(0.0, low - room), high + room
    height = 2 * ROW_PX
    found = [time_axis(low, high, LEFT, PLANE, 0, height)]
    for place, (name, values, colour) in enumerate(
        zip(("before", "after"), sides, (BEFORE, AFTER), strict=True)
    ):
        y = ROW_PX * place + ROW_PX / 2
        found.append(text(0, y + 4, name))
        if not len(values):
            found.append(text(LEFT + 6, y + 4, "did not run"))
            continue
        mean = float(values.mean())
        x = LEFT + PLANE * (mean - low) / (high - low)
        for value in _some(values):
            dot = LEFT + PLANE * (value - low) / (high - low)
            found.append(
                f'<circle cx="{dot:.1f}" cy="{y:.1f}" r="5" fill="{colour}" fill-opacity="0.75">'
                f"<title>{escape(f'a run {name}: {duration(value)}')}</title></circle>"
            )
        found.append(line(x, y - 9, x, y + 9, faint=False))
        found.append(text(LEFT + PLANE + 14, y + 4, f"mean {duration(mean)}"))
    counts = " and ".join(
        f"{len(values)} {'run' if len(values) == 1 else 'runs'} {name}"
        for values, name in zip(sides, ("before", "after"), strict=True)
    )
    return drawing(f"A dot for each of {counts}", WIDTH, height + 22, found)


def _some(values: np.ndarray) -> list[float]:
    ordered = np.sort(values)
    if len(ordered) > MOST_RUN_DOTS:
        ordered = ordered[np.linspace(0, len(ordered) - 1, MOST_RUN_DOTS).round().astype(int)]
    found: list[float] = ordered.tolist()
    return found
