"""Spark event logs, wherever and however they are stored, read into tables.

Submodules are imported on first use: processes that decode blocks need none of the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iqcar.base.lazy_names import lazy_names

if TYPE_CHECKING:
    from iqcar.logs.ingest import ReadProgress as ReadProgress
    from iqcar.logs.ingest import read_logs as read_logs
    from iqcar.logs.plugin.plugin_events import join_samples as join_samples

__all__ = ["ReadProgress", "join_samples", "read_logs"]

__getattr__ = lazy_names(
    __name__,
    {"plugin.plugin_events": ("join_samples",), "ingest": ("ReadProgress", "read_logs")},
)
