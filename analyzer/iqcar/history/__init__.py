"""Keeps kilobytes per application in a store, and answers what happened over weeks and months.

Modules are imported on first use: a question needs nothing of what reads and diagnoses logs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iqcar.base.lazy_names import lazy_names

if TYPE_CHECKING:
    from iqcar.history.add_logs import Added, add
    from iqcar.history.ask_store import Top, top, who
    from iqcar.history.query_changes import Changes, QueryChange, changes
    from iqcar.history.recurring_query import trend
    from iqcar.history.store_views import Asked
    from iqcar.history.stored_files import Store, open_store

__all__ = [
    "Added",
    "Asked",
    "Changes",
    "QueryChange",
    "Store",
    "Top",
    "add",
    "changes",
    "open_store",
    "top",
    "trend",
    "who",
]

__getattr__ = lazy_names(
    __name__,
    {
        "add_logs": ("Added", "add"),
        "ask_store": ("Top", "top", "who"),
        "query_changes": ("Changes", "QueryChange", "changes"),
        "recurring_query": ("trend",),
        "store_views": ("Asked",),
        "stored_files": ("Store", "open_store"),
    },
)
