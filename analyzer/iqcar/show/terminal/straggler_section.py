"""Stragglers in the report of ``iqcar analyze``: how many, how long, and for which causes."""

from __future__ import annotations

import pandas as pd
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from iqcar.base.units import duration, printable, short
from iqcar.causes.stragglers.straggler_result import UNEXPLAINED, Stragglers, by_cause
from iqcar.rules.vocabulary.topics import straggler_cause
from iqcar.show.terminal.layout import plain_table


def straggler_section(found: Stragglers, top: int) -> RenderableType | None:
    """One line and the causes of all stragglers; nothing where there are none."""
    if not len(found.stragglers):
        return None
    return Group(
        Text(headline(found, found.stragglers, found.tasks)),
        cause_table(found, None, top),
        Text("See each, with evidence and advice: iqcar stragglers PATH"),
    )


def headline(found: Stragglers, mine: pd.DataFrame, tasks: int) -> str:
    """Say how many of these tasks were stragglers, by how much, and how many are explained."""
    times = f"{found.settings.straggler:g} times"
    if not len(mine):
        return f"none of {tasks:,} tasks took more than {times} its stage's median"
    explained = int((mine["causes"] > 0).sum())
    return (
        f"{len(mine):,} of {tasks:,} tasks took more than {times} their stage's median, "
        f"{duration(float(mine['delay_ms'].sum()))} over it in all; causes found for {explained:,}"
    )


def cause_table(found: Stragglers, app: int | None, top: int) -> Table:
    """Stragglers per cause; a straggler with two causes counts in both."""
    table = plain_table("cause", ">stragglers", ">over the median", "what it means")
    frame = by_cause(found, app)
    named = frame[(frame["cause"] != UNEXPLAINED).to_numpy()].head(max(top, 1) * 2)
    rest = frame[(frame["cause"] == UNEXPLAINED).to_numpy()]
    for row in [*named.to_dict("records"), *rest.to_dict("records")]:
        known = straggler_cause(row["cause"])
        table.add_row(
            short(known.name),
            f"{row['stragglers']:,}",
            duration(row["delay_ms"]),
            Text(printable(known.sentence)),
        )
    return table
