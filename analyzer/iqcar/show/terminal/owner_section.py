"""Whose queries lost time to whose, in the report of ``iqcar analyze --by``."""

from __future__ import annotations

from rich.console import RenderableType

from iqcar.base.formatting import breakdown, duration, percent, printable, short
from iqcar.diagnosis import Diagnosis
from iqcar.say.owner_losses import KIND_WORDS, losses_by_owner, owner_lines
from iqcar.show.terminal.layout import plain_table

WIDTH = 32
"""Characters of an owner's name."""


def owner_section(diagnosis: Diagnosis) -> RenderableType | None:
    """One line per owner that lost time and owner or cause that it lost it to; none without --by.

    The last line sums what is not shown, so that the lines sum to what all queries lost.
    """
    if not diagnosis.settings.by:
        return None
    lines, rest = owner_lines(
        losses_by_owner(diagnosis, diagnosis.settings.by), max(3 * diagnosis.settings.top, 1)
    )
    if not lines:
        return None
    table = plain_table("lost by", "to", "", ">lost", ">of all", "waiting for", "evidence")
    for line in (*lines, rest) if rest else lines:
        table.add_row(
            short(printable(line.victim), WIDTH),
            short(printable(line.source), WIDTH),
            KIND_WORDS[line.kind],
            duration(line.lost_ms),
            percent(line.share),
            breakdown(line.by_resource),
            line.evidence,
        )
    return table
