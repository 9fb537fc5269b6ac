"""A readable name for a query that has no description, made from its physical plan."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from iqcar.logs.text.redact import redact_text

if TYPE_CHECKING:
    from iqcar.logs.events.structs import PlanNode

MAX_SOURCES = 3
"""Sources that a name lists; a query over more of them is told from others by its id."""

MAX_SOURCE = 60
"""Characters kept of the name of a source."""

_WORDS = (
    ("write", ("Insert", "Overwrite", "AppendData", "AsSelect", "WriteFiles", "WriteToDataSource")),
    ("join", ("Join", "CartesianProduct", "NestedLoop")),
    ("aggregate", ("Aggregate", "GroupingAgg")),
    ("window", ("Window",)),
    ("sort", ("TakeOrdered",)),
    ("explode", ("Generate",)),
    ("python", ("Python", "Pandas", "InArrow")),
    ("union", ("Union",)),
)
"""Words for what a plan does, in the order in which a name says them, and parts of the names of the
nodes that do it, Photon's and RAPIDS' too."""

_REMEMBERED, _SHORT = 4096, 300
"""So many names of up to so many characters are remembered with what they tell. 5 MB at most."""
_SHORT_TEXT = 1000
"""Characters of a leaf's name and location up to which they are remembered: every plan is gone
through more than once, and most read what others read. 5 MB at most."""
_LOCATION = "Location: "
_ROWS = {"LocalTableScan": "local rows", "Range": "range", "OneRowRelation": "one row"}


def plan_name(nodes: Sequence[PlanNode]) -> str:
    """Return what a plan does and to which sources, such as ``join, aggregate of sales, items``.

    Parameters
    ----------
    nodes : all nodes, as :func:`iqcar.logs.events.fingerprint.nodes_of` returns them.
    """
    names = "\n".join({nodes[0].name, *(node.name for node in nodes if node.children)})
    done = [word for word, parts in _WORDS if any(part in names for part in parts)]
    leaves = [source(node) for node in reversed(nodes) if not node.children]
    sources = list(dict.fromkeys(name for name in leaves if name))
    listed = ", ".join(sources[:MAX_SOURCES]) + (", …" if len(sources) > MAX_SOURCES else "")
    return " of ".join(part for part in (", ".join(done) or "read", listed) if part)


def source(node: PlanNode) -> str:
    """Return what a leaf of a plan reads: a table, else the last part of a path, else its kind."""
    name, text = node.name, node.text
    location = location_in(text)
    is_short = len(name) + len(location) <= _SHORT_TEXT
    return _remembered_source(name, location) if is_short else _source(name, location)


def location_in(text: str) -> str:
    """Return the paths that a scan's text names; empty if it names none.

    >>> location_in("FileScan parquet [a#1] Location: InMemoryFileIndex [file:/t, file:/u], b")
    'file:/t, file:/u'
    """
    location = text.find(_LOCATION)
    start = text.find("[", location + len(_LOCATION)) + 1 if location >= 0 else 0
    if not start:
        return ""
    end = text.find("]", start)
    return text[start : end if end >= 0 else len(text)]


def _source(name: str, location: str) -> str:
    name, by_path = _remembered(name) if len(name) <= _SHORT else _named(name)
    return redact_text((by_path and _folder_of(location)) or name, MAX_SOURCE)


_remembered_source = lru_cache(_REMEMBERED)(_source)


def _named(name: str) -> tuple[str, bool]:
    """Return the source that a leaf's name tells, and whether a path in its text tells more."""
    name = _ROWS.get(name, name.removeprefix("Gpu").removeprefix("Photon"))
    words = name.split()
    if len(words) < 2 or "Scan" not in words[0]:
        return name, False
    if len(words) > 2 or words[0] != "Scan":
        return words[-1], False
    return words[1], True


_remembered = lru_cache(_REMEMBERED)(_named)


def _folder_of(location: str) -> str:
    """Return the last part of the first path of a scan's location; empty if there is none."""
    path = location.partition(",")[0]
    words = path.split(maxsplit=1)
    if not words or not path.startswith(words[0]):
        return ""
    return words[0].rstrip("/").rpartition("/")[2]
