"""Keeps kilobytes per application in a store, and answers what happened over weeks and months."""

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
