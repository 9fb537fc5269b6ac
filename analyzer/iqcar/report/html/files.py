"""The files the page is made of: one style sheet, one program, and Plotly's."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from plotly.offline import get_plotlyjs

from iqcar.plots.timeline import timeline_program, timeline_style

_OWN_STYLE = re.compile(r'getElementById\("([0-9a-f]{64})"\)')
"""How a library inside Plotly looks whether its style sheet is there already."""
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
    """Plotly's program, as its package ships it."""
    # An HTML parser would end the element at the first "</script", wherever it stands.
    source: str = get_plotlyjs()
    return source.replace("</script", "<\\/script").replace("<!--", "<\\!--")


@cache
def unwanted_styles() -> tuple[str, ...]:
    """Ids of style sheets that Plotly's program would add by itself.

    They are for maps, which the page has none of, and its policy refuses them. An element of that
    id makes the program believe they are there.
    """
    return tuple(dict.fromkeys(_OWN_STYLE.findall(plotly())))
