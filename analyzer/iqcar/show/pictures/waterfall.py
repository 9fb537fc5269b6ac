"""Draw how changes lead from the time of a run before to that after."""

from __future__ import annotations

from collections.abc import Sequence

from iqcar.base.limits import MOST_STEPS, fold
from iqcar.base.units import duration
from iqcar.show.pictures.drawing import (
    LABEL_PX,
    ROW_PX,
    Drawing,
    bar,
    drawing,
    label,
    line,
    text,
    time_axis,
)
from iqcar.show.pictures.palette import AFTER, BEFORE, FASTER, OTHERS, SLOWER

WIDTH, PLANE = 900, 500
"""Width of the drawing and of its bars, in pixels."""


def waterfall(before_ms: float, steps: Sequence[tuple[str, float]], rest_ms: float) -> Drawing:
    """Draw a waterfall of contributions.

    Parameters
    ----------
    before_ms : float
        Time before.
    steps : sequence of (str, float)
        What changed, and by how many ms, in order; beyond
        :data:`~iqcar.base.limits.MOST_STEPS` the smallest are one step.
    rest_ms : float
        What all that is not said to have changed adds.
    """
    kept, left = fold([abs(ms) for _, ms in steps], MOST_STEPS)
    shown = [(*steps[place], "") for place in sorted(kept.tolist())]
    if len(left):
        shown.append((f"{len(left)} more changes", sum(steps[place][1] for place in left), OTHERS))
    shown.append(("not told to have changed", rest_ms, OTHERS))
    reached = [before_ms]
    for _, ms, _ in shown:
        reached.append(reached[-1] + ms)
    # From nothing on if the steps are large beside the whole; else steps could not be seen.
    low, high = min(reached), max(reached)
    low = 0.0 if high - low > 0.2 * high else max(0.0, low - 2 * (high - low))
    span = (high - low) or 1.0
    rows: list[str] = []
    height = ROW_PX * (len(shown) + 2)
    rows.append(time_axis(low, high, LABEL_PX, PLANE, 0, height))

    def at(ms: float) -> float:
        return LABEL_PX + PLANE * (ms - low) / span

    def row(number: int, name: str, start: float, end: float, colour: str, said: str) -> None:
        y = ROW_PX * number
        x, width = at(min(start, end)), at(max(start, end)) - at(min(start, end))
        weight = 650 if colour in (BEFORE, AFTER) else 400
        rows.append(label(y + 16, name, weight=weight))
        rows.append(bar(x, y + 4, width, ROW_PX - 8, colour, f"{name}: {said}"))
        rows.append(text(LABEL_PX + PLANE + 14, y + 16, said))
        if colour != AFTER:
            rows.append(line(at(end), y + ROW_PX - 4, at(end), y + ROW_PX + 4, faint=False))

    row(0, "before", low, before_ms, BEFORE, duration(before_ms))
    for number, (name, ms, colour) in enumerate(shown):
        said = f"{'+' if ms >= 0 else '−'}{duration(abs(ms))}"
        colour = colour or (SLOWER if ms >= 0 else FASTER)
        row(number + 1, name, reached[number], reached[number + 1], colour, said)
    row(len(shown) + 1, "after", low, reached[-1], AFTER, duration(reached[-1]))
    said = f"From {duration(before_ms)} before to {duration(reached[-1])} after, change by change"
    return drawing(said, WIDTH, height + 22, rows)
