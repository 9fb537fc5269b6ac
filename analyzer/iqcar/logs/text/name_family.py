"""Names of queries without what differs between their runs: dates, times, ids, numbers of runs.

What that is stands in a data file of the Spark plugin (iqcar_names.json), which does the same
(NameFamily.java): rules are matched by names. Letters that are newer than the Unicode of a driver's
Java (13 in Java 17) are none to the plugin: beside them the two may differ.
"""

from __future__ import annotations

import json
from functools import lru_cache
from itertools import pairwise
from typing import Any

from iqcar.logs.text.linear import Replacement, compiled, encoded
from iqcar.logs.text.redact import NAMES, shared_file

_MARK = b"*"
_LEFT = compiled(r"[\p{L}\p{N}]")
_REMEMBERED, _SHORT = 4096, 300
"""So many names of up to so many characters are remembered with what became of them. 5 MB at
most."""


def family(name: str) -> str:
    """Return a name as it is in every run of its query; blanks become single.

    >>> family("daily_sales 20261001"), family("tpcds_q39b  v2"), family("load 12:30, run 7")
    ('daily_sales *', 'tpcds_q39b v2', 'load *, run *')
    """
    return _remembered(name) if len(name) <= _SHORT else _family(name)


def tells_apart(name: str) -> bool:
    """Tell whether letters or numbers are left of a name: if not, it names every query alike.

    >>> tells_apart("q1"), tells_apart("2026-10-01 12:30")
    (True, False)
    """
    return _LEFT.search(encoded(family(name))) is not None


def _family(name: str) -> str:
    text = encoded(" ".join(name.split()))
    for step in _steps():
        text = step.apply(text)
    return text.decode("utf-8")


_remembered = lru_cache(_REMEMBERED)(_family)


@lru_cache(1)
def _steps() -> tuple[Replacement, ...]:
    data = json.loads(shared_file(NAMES).read_text(encoding="utf-8"))
    parts = list(data["parts"].items())
    return tuple(_step(step, parts) for step in data["steps"])


def _step(step: dict[str, Any], parts: list[tuple[str, str]]) -> Replacement:
    shape, least = step["shape"], step.get("changes", 0)
    for name, part in reversed(parts):  # a part may hold parts above it
        shape = shape.replace(f"<{name}>", part)

    def instead(match: Any) -> bytes:
        found: bytes = match[1]
        return _MARK if not least or _changes(found) >= least else found

    return Replacement(b"", compiled(shape), instead)


def _changes(found: bytes) -> int:
    """Count how often letters follow numbers or numbers letters."""
    return sum(a.isdigit() != b.isdigit() for a, b in pairwise(found.decode("ascii")))
