"""Make the Jinja environment of a room's templates: what comes from a log is escaped."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jinja2
from markupsafe import Markup

from iqcar.base.units import LINES, printable


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
