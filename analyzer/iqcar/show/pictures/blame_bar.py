"""The bar of a finding: parts of a query's run that were lost, by who is blamed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from iqcar.base.units import duration, percent
from iqcar.enums import BlameKind
from iqcar.say import Blamed, Finding
from iqcar.show.pictures.palette import cause_colour

_ORDER = (
    BlameKind.QUERY, BlameKind.REST, BlameKind.OWN, BlameKind.KNOWN, BlameKind.UNATTRIBUTED,
)  # fmt: skip


class Segment(NamedTuple):
    """A part of a bar.

    Attributes
    ----------
    start, width : float
        As shares of the bar, 0 to 1.
    colour : str
    name : str
        Who is blamed.
    label : str
        The same with its time and share of the loss, and what a cause means.
    share : float
        Of what was lost.
    """

    start: float
    width: float
    colour: str
    name: str
    label: str
    share: float


def blame_bar(finding: Finding, colours: Sequence[str]) -> list[Segment]:
    """Lay out the bar of a finding; its whole width is the query's run.

    Parameters
    ----------
    finding : Finding
    colours : sequence of str
        Colour of each query by row.

    Returns
    -------
    list of Segment
        Queries first, the largest first, then causes; empty where nothing was lost. Where the run
        is not known, the loss is the whole width.
    """
    lost = sum(one.lost_ms for one in finding.blamed)
    whole = max(finding.ran_ms, lost) if np.isfinite(finding.ran_ms) else lost
    if not whole > 0:
        return []
    segments: list[Segment] = []
    start = 0.0
    for one in sorted(finding.blamed, key=lambda one: _ORDER.index(one.kind)):
        width = one.lost_ms / whole
        label = f"{one.name}: {duration(one.lost_ms)}, {percent(one.share)} of what was lost"
        segments.append(
            Segment(
                start,
                width,
                blamed_colour(one, colours),
                one.name,
                f"{label}. {one.meaning}" if one.meaning else label,
                one.share,
            )
        )
        start += width
    return segments


def blamed_colour(blamed: Blamed, colours: Sequence[str]) -> str:
    """Colour of a query that is blamed, or of the kind of cause."""
    if blamed.query >= 0:
        return colours[blamed.query]
    return cause_colour(blamed.kind, next(iter(blamed.by_resource), None))
