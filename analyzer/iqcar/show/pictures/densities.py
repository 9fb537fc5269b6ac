"""Draw how durations of both sides are distributed, on a logarithmic axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from iqcar.base.formatting import duration
from iqcar.show.pictures.drawing import Drawing, drawing, line, text
from iqcar.show.pictures.palette import AFTER, BEFORE

Curve = tuple[NDArray[np.float64], NDArray[np.float64]]

WIDTH, HEIGHT = 300, 70
POINTS = 64
"""Points of a curve in a picture of this size."""


def densities(curves: Sequence[Curve]) -> Drawing:
    """Draw one curve for each side.

    Parameters
    ----------
    curves : sequence of (ndarray of shape (n,), ndarray of shape (n,))
        Durations in ms, and the density of their log2; before, then after; empty if unknown.
    """
    known = [ms for ms, _ in curves if len(ms)]
    if not known:
        return drawing("No durations", WIDTH, 24, [text(0, 16, "no durations")])
    low = float(np.log2(min(ms[0] for ms in known)))
    high = float(np.log2(max(ms[-1] for ms in known)))
    top = max(float(density.max()) for _, density in curves if len(density)) or 1.0
    found = [line(0, HEIGHT, WIDTH, HEIGHT)]
    for (ms, density), colour in zip(curves, (BEFORE, AFTER), strict=True):
        if not len(ms):
            continue
        places = np.linspace(0, len(ms) - 1, POINTS).round().astype(int)
        xs = WIDTH * (np.log2(ms[places]) - low) / ((high - low) or 1.0)
        ys = HEIGHT - (HEIGHT - 6) * density[places] / top
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(xs, ys, strict=True))
        found.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'
        )
    found.append(text(0, HEIGHT + 15, duration(2.0**low)))
    found.append(text(WIDTH, HEIGHT + 15, duration(2.0**high), anchor="end"))
    said = f"Density of log durations from {duration(2.0**low)} to {duration(2.0**high)}"
    return drawing(said, WIDTH, HEIGHT + 22, found)
