"""The files the page is made of: one style sheet, one program, and Plotly's."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from iqcar.show.pictures.timeline import timeline_program, timeline_style

FOLDER = Path(__file__).parent
SCRIPTS = (
    "elements.js",
    "numbers.js",
    "pictures.js",
    "matrix.js",
    "selection.js",
    "explore.js",
    "sankey.js",
    "when.js",
    "fixed.js",
    "whatif.js",
    "look.js",
    "start.js",
)
"""Parts of the page's program in the order in which they are joined."""
COMPARE_SCRIPTS = ("look.js", "compare.js")
"""The same of the page of a comparison."""


@cache
def style() -> str:
    """The style sheet."""
    return (FOLDER / "style.css").read_text(encoding="utf-8") + timeline_style()


@cache
def program() -> str:
    """The page's own program."""
    parts = [(FOLDER / "scripts" / name).read_text(encoding="utf-8") for name in SCRIPTS]
    return "\n".join(["'use strict';", timeline_program(), *parts])


@cache
def compare_program() -> str:
    """The program of the page of a comparison."""
    parts = [(FOLDER / "scripts" / name).read_text(encoding="utf-8") for name in COMPARE_SCRIPTS]
    return "\n".join(["'use strict';", *parts])


@cache
def plotly() -> str:
    """Plotly.js with the kinds of traces that iqcar draws; ``scripts/bundle_plotly`` makes it."""
    source = (FOLDER / "plotly.min.js").read_text(encoding="utf-8")
    # An HTML parser would end the element at the first "</script", wherever it stands.
    return source.replace("</script", "<\\/script").replace("<!--", "<\\!--")
