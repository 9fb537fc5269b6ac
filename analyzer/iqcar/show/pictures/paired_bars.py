"""Draw amounts before and after as pairs of bars."""

from __future__ import annotations

from collections.abc import Sequence

from iqcar.base.units import duration
from iqcar.show.pictures.drawing import LABEL_PX, Drawing, bar, drawing, label, text, time_axis
from iqcar.show.pictures.palette import AFTER, BEFORE

WIDTH, PLANE = 900, 480
PAIR_PX, BAR_PX = 34, 12


def paired_bars(rows: Sequence[tuple[str, float, float]], label_of_all: str) -> Drawing:
    """Draw a pair of bars for each name.

    Parameters
    ----------
    rows : sequence of (str, float, float)
        Name, ms before and ms after.
    label_of_all : str
        What is seen, for who cannot see it.
    """
    high = max((max(row[1:]) for row in rows), default=0.0) or 1.0
    height = PAIR_PX * max(len(rows), 1)
    found = [time_axis(0.0, high, LABEL_PX, PLANE, 0, height)]
    for place, (name, *amounts) in enumerate(rows):
        top = PAIR_PX * place + 4
        found.append(label(top + 17, name))
        for number, (ms, colour, word) in enumerate(
            zip(amounts, (BEFORE, AFTER), ("before", "after"), strict=True)
        ):
            y = top + number * (BAR_PX + 1)
            said = f"{name} {word}: {duration(ms)}"
            found.append(bar(LABEL_PX, y, PLANE * ms / high, BAR_PX, colour, said))
        said = f"{duration(amounts[0])} → {duration(amounts[1])}"
        found.append(text(LABEL_PX + PLANE + 14, top + 17, said))
    return drawing(label_of_all, WIDTH, height + 22, found)
