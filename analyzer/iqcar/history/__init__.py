"""Keeps kilobytes per application in a store, and answers what happened over weeks and months.

Modules are imported on first use: a question needs nothing of what reads and diagnoses logs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iqcar.base.lazy_names import lazy_names

if TYPE_CHECKING:
    from iqcar.history.add_logs import add
    from iqcar.history.ask_store import changes, top, trend, who
    from iqcar.history.stored_rows import known_demand

__all__ = ["add", "changes", "known_demand", "top", "trend", "who"]

__getattr__ = lazy_names(
    __name__,
    {
        "add_logs": ("add",),
        "ask_store": ("changes", "top", "trend", "who"),
        "stored_rows": ("known_demand",),
    },
)
