"""Make names of pools: readable, of safe characters, short, and unique."""

from __future__ import annotations

import re
from collections.abc import Set

PREFIX = "iqcar-"
"""Every pool made from a rule begins so; others are the application's own."""

NAME_LENGTH = 40
"""Characters of a query's name in its pool's name: the Spark UI shows pools in a table column."""

_OTHERS = re.compile(r"[^A-Za-z0-9]+")


def pool_name(query_name: str, taken: Set[str]) -> str:
    """Return ``iqcar-`` and the query's name, with a number where that is taken.

    Letters and digits of ASCII are kept, all else becomes a hyphen: the name stands in XML, in
    SQL, in shells and in properties.
    """
    slug = _OTHERS.sub("-", query_name).strip("-")[:NAME_LENGTH].rstrip("-") or "query"
    name, number = PREFIX + slug, 1
    while name in taken:
        number += 1
        name = f"{PREFIX}{slug}-{number}"
    return name
