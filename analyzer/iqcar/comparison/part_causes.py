"""Name the parts of each change: data or rate, and what its tasks did or waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iqcar.comparison.comparison_tables import CHANGE_CAUSES, PART_NAMES
from iqcar.formatting import duration

if TYPE_CHECKING:
    import pandas as pd

LEAST_SHARE = 0.1
"""Share of a change from which one of its parts is named."""


def part_causes(changes: pd.DataFrame, effect: pd.DataFrame) -> pd.DataFrame:
    """Return the parts of each change that go its way, the largest first.

    Returns
    -------
    DataFrame of :data:`~iqcar.comparison.comparison_tables.CHANGE_CAUSES`
    """
    rows: list[tuple[int, str, float, str]] = []
    for change, category in enumerate(changes["category"].tolist()):
        whole = float(effect["contribution_ms"].iloc[category])
        if whole == 0:
            continue
        parts = {
            name: float(effect[f"{name.removesuffix('_ms')}_change_ms"].iloc[category])
            for name in PART_NAMES
        }
        for name, part in sorted(parts.items(), key=lambda item: -item[1] / whole):
            if part / whole >= LEAST_SHARE:
                sentence = f"{name.removesuffix('_ms').replace('_', ' ')} {signed(part)}"
                rows.append((change, f"metric:{name}", part / whole, sentence))
    names = CHANGE_CAUSES.column_names()
    return CHANGE_CAUSES.frame(
        {name: [row[place] for row in rows] for place, name in enumerate(names)}
    )


def signed(ms: float) -> str:
    """Format a change of time with its sign: ``+7.7 s``."""
    return f"{'+' if ms >= 0 else '−'}{duration(abs(ms))}"
