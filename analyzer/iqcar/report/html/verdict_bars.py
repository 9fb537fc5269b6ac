"""A bar per finding: what a query ran, and whom what it lost is put down to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from iqcar.blame.attribute import KNOWN, OWN, QUERY, UNATTRIBUTED
from iqcar.enums import BlameKind
from iqcar.formatting import duration, percent, short
from iqcar.plots.palette import BLAME_COLOURS, query_colours
from iqcar.report.html.blame_rows import FOLDED

if TYPE_CHECKING:
    from iqcar.diagnosis import Diagnosis
    from iqcar.report.html.verdict import Finding, Verdict

MOST_SEGMENTS = 7
"""Sources with a segment of their own; what is smaller goes into one."""
_CAUSES = (
    (OWN, BlameKind.OWN, "its own tasks"),
    (KNOWN, BlameKind.KNOWN, "known causes"),
    (UNATTRIBUTED, BlameKind.UNATTRIBUTED, "unattributed"),
)


@dataclass(frozen=True)
class Segment:
    """A part of a bar: where it begins and how long it is, as parts of 1,000."""

    x: float
    width: float
    colour: str
    short: str
    label: str


def bars_of(verdict: Verdict, diagnosis: Diagnosis) -> dict[int, list[Segment]]:
    """One bar per finding, by query row; its whole width is the query's run."""
    colours = query_colours(diagnosis.tables.queries)
    return {one.query: _bar(one, diagnosis, colours) for one in verdict.findings}


def _bar(finding: Finding, diagnosis: Diagnosis, colours: list[str]) -> list[Segment]:
    queries = diagnosis.tables.queries
    ran = float(queries["duration_ms"].iloc[finding.query])
    lost = sum(part.lost_ms for part in finding.parts)
    whole = max(ran, lost) if np.isfinite(ran) else lost
    if not whole > 0:
        return []
    taken: dict[int, float] = {}
    for part in finding.parts:
        if part.kind == QUERY:
            taken[part.source] = taken.get(part.source, 0.0) + part.lost_ms
    folded = diagnosis.blame.folded["sources"]
    hidden = int(folded.iloc[finding.query]) if len(folded) else 0
    rest = taken.pop(FOLDED, 0.0)
    ordered = sorted(taken.items(), key=lambda item: -item[1])
    pieces = [
        (short(str(queries["name"].iloc[row]), 48), ms, colours[row])
        for row, ms in ordered[:MOST_SEGMENTS]
    ]
    rest += sum(ms for _, ms in ordered[MOST_SEGMENTS:])
    if rest > 0:
        more = len(ordered[MOST_SEGMENTS:]) + hidden
        pieces.append((f"{more} more queries", rest, BLAME_COLOURS[BlameKind.QUERY]))
    for code, kind, name in _CAUSES:
        ms = sum(part.lost_ms for part in finding.parts if part.kind == code)
        if ms > 0:
            pieces.append((name, ms, BLAME_COLOURS[kind]))
    segments = []
    x = 0.0
    for name, ms, colour in pieces:
        width = 1000 * ms / whole
        share = percent(ms / lost)
        label = f"{name}: {duration(ms)}, {share} of what was lost"
        segments.append(Segment(round(x, 2), round(width, 2), colour, f"{name} {share}", label))
        x += width
    return segments
