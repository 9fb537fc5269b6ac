"""Names from logs as labels and hover texts: Plotly renders some HTML, so nothing goes in raw.

Plotly turns ``<b>``, ``<a href>`` and ``<br>`` in labels and hover texts into markup, and what is
between dollar signs into formulas where a page has MathJax. Names come from logs: they are shown
as they are written, shortened, on as many lines as they need.
"""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Iterable, Sequence

from iqcar.base.units import LINES, percent, printable, run_numbers, short

LABEL_WIDTH = 36
"""Characters of a name beside a bar or a node; longer ones would take the room of the picture."""
NUMBER_WIDTH = 24
"""Characters of what tells runs of one query apart."""
HOVER_WIDTH = 64
"""Characters per line of a hover text."""
HOVER_NAME = 320
"""Characters of a name in a hover text: about five lines; SQL texts have thousands."""

_FIRST_STRONG_ISOLATE, _POP_ISOLATE = "\u2068", "\u2069"


def safe(text: str) -> str:
    """Escape what Plotly would take for markup or a formula; keep right-to-left text to itself."""
    text = printable(text, LINES)
    escaped = (
        text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("$", "&#36;")
    )
    if any(unicodedata.bidirectional(c) in ("R", "AL", "AN") for c in text):
        # Without this, a number that follows such a name would be drawn before it.
        return f"{_FIRST_STRONG_ISOLATE}{escaped}{_POP_ISOLATE}"
    return escaped


def label(name: str, width: int = LABEL_WIDTH) -> str:
    """One short line of a name, safe beside a bar or a node."""
    return safe(short(name, width)) or "(no name)"


def wrapped(name: str, width: int = HOVER_NAME) -> str:
    """Write a name over several lines, safe in a hover text."""
    lines = textwrap.wrap(short(printable(name), width), HOVER_WIDTH, break_on_hyphens=False)
    return "<br>".join(safe(line) for line in lines) or "(no name)"


def hover(title: str, facts: Iterable[str]) -> str:
    """Write a hover text: a name in bold, then one fact per line (ours; already safe)."""
    return "<br>".join([f"<b>{wrapped(title)}</b>", *facts])


def distinct(names: Sequence[str], ids: Sequence[str], width: int = LABEL_WIDTH) -> list[str]:
    """Label things; where several have one name, add the end of each id."""
    lines = [short(name, width) for name in names]
    several = (
        {line for line in lines if lines.count(line) > 1} if len(lines) < 2_000 else set(lines)
    )
    ends = run_numbers(ids, lines)
    return [
        safe(f"{short(line, max(width - len(end) - 1, 8))} {short(end, NUMBER_WIDTH)}".strip())
        if line in several
        else safe(line) or "(no name)"
        for line, end in zip(lines, ends, strict=True)
    ]


def percent_text(part: float) -> str:
    """Write a share as :func:`~iqcar.base.units.percent`; its ``<1 %`` is no markup either."""
    return safe(percent(part))
