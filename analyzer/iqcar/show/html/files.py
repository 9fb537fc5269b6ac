"""The files the page is made of and written to, and the environment of its templates."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from iqcar.base.units import LINES, printable
from iqcar.show.pictures.timeline import timeline_program, timeline_style


def escaping_environment(package: str, **filters: Callable[..., Any]) -> jinja2.Environment:
    """Return the environment of a package's templates, with these filters added.

    Everything is escaped unless a template says ``safe``, and a name that is missing is an error.
    """
    made = jinja2.Environment(
        loader=jinja2.PackageLoader(package),
        autoescape=True,
        finalize=_visible,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(filters)
    return made


_UNIT = re.compile(r"(?<=\d)(?: (?=(?:ms|s|min|h|days|[KMGT]?B)\b)| ?(?=%(?![0-9A-Fa-f]{2})))")
"""Between a number and its unit; an escape in an address is no per cent."""


def _visible(value: Any) -> Any:
    """Replace control characters in what comes from a log, and keep numbers with their units.

    Finished HTML stays as it is, and so does a file, which has several lines.
    """
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    text = printable(value, LINES)
    return text if "\n" in text else _UNIT.sub("\N{NO-BREAK SPACE}", text)


SEVERAL = "iqcar-report.html"
"""Name of a report about several paths, or about one that has no name of its own."""
_KNOWN_ENDINGS = re.compile(
    r"(\.(inprogress|zstd|zst|lz4|snappy|lzf|gz|bz2|zip|json|log))+$", re.IGNORECASE
)


def report_name(paths: Sequence[str]) -> str:
    """Name the file after the log: ``app-1.zstd`` becomes ``app-1-report.html``, here.

    >>> report_name(["/logs/app-1.zstd"]), report_name(["a", "b"]), report_name(["logs/*"])
    ('app-1-report.html', 'iqcar-report.html', 'iqcar-report.html')
    """
    if len(paths) != 1:
        return SEVERAL
    name = re.split(r"[/\\]", paths[0].rstrip("/\\"))[-1]
    stem = _KNOWN_ENDINGS.sub("", name)
    plain = re.fullmatch(r"[\w][\w.\- ]{0,120}", stem)
    return f"{stem}-report.html" if plain else SEVERAL


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
