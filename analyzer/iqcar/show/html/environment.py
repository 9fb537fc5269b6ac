"""Make the Jinja environment of a room's templates: what comes from a log is escaped."""

from __future__ import annotations

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


def _visible(value: Any) -> Any:
    """Replace control characters in what comes from a log; finished HTML stays as it is."""
    plain = isinstance(value, str) and not isinstance(value, Markup)
    return printable(value, LINES) if plain else value
