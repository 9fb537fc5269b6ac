"""Keeps kilobytes per application in a store, and answers what happened over weeks and months.

Modules are imported on first use: a question needs nothing of what reads and diagnoses logs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iqcar.base.lazy_names import lazy_names

if TYPE_CHECKING:
    from iqcar.history.add_logs import add
    from iqcar.history.ask_store import top, trend, who
    from iqcar.history.kept_demands import known_demand
    from iqcar.history.query_changes import changes

__all__ = ["add", "changes", "known_demand", "top", "trend", "who"]

__getattr__ = lazy_names(
    __name__,
    {
        "add_logs": ("add",),
        "ask_store": ("top", "trend", "who"),
        "kept_demands": ("known_demand",),
        "query_changes": ("changes",),
    },
)
