"""A readable name for a query that has no description, made from its physical plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iqcar.eventlog.text.linear import BLANK, compiled, encoded
from iqcar.eventlog.text.redact import redact_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iqcar.eventlog.events.structs import PlanNode

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

_PATH = compiled(rf"Location: [^\[]*\[([^,\]{BLANK}]*)")
_ROWS = {"LocalTableScan": "local rows", "Range": "range", "OneRowRelation": "one row"}


def plan_name(nodes: Sequence[PlanNode]) -> str:
    """Return what a plan does and to which sources, such as ``join, aggregate of sales, items``.

    Parameters
    ----------
    nodes : sequence of PlanNode
        All nodes, as :func:`iqcar.eventlog.events.fingerprint.nodes_of` returns them.
    """
    names = "\n".join(node.name for node in nodes if node.children)
    names += "\n" + nodes[0].name
    done = [word for word, parts in _WORDS if any(part in names for part in parts)]
    leaves = [source(node) for node in reversed(nodes) if not node.children]
    sources = list(dict.fromkeys(name for name in leaves if name))
    listed = ", ".join(sources[:MAX_SOURCES]) + (", …" if len(sources) > MAX_SOURCES else "")
    return " of ".join(part for part in (", ".join(done) or "read", listed) if part)


def source(node: PlanNode) -> str:
    """Return what a leaf of a plan reads: a table, else the last part of a path, else its kind."""
    name = _ROWS.get(node.name, node.name.removeprefix("Gpu").removeprefix("Photon"))
    words = name.split()
    if len(words) > 1 and "Scan" in words[0]:
        table = words[-1] if len(words) > 2 or words[0] != "Scan" else ""
        path = _PATH.search(encoded(node.text)) if not table else None
        folder = path[1].decode("utf-8", "replace").rstrip("/").rpartition("/")[2] if path else ""
        name = table or folder or " ".join(words[1:])
    return redact_text(name, MAX_SOURCE)
