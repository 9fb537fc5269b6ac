"""Spark event logs, wherever and however they are stored, read into tables.

Submodules are imported on first use: processes that decode blocks need none of the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iqcar.base.lazy_names import lazy_names

if TYPE_CHECKING:
    from iqcar.logs.plugin.plugin_samples import join_samples as join_samples
    from iqcar.logs.read import ReadProgress as ReadProgress
    from iqcar.logs.read import read_logs as read_logs

__all__ = ["ReadProgress", "join_samples", "read_logs"]

__getattr__ = lazy_names(
    __name__,
    {"plugin.plugin_samples": ("join_samples",), "read": ("ReadProgress", "read_logs")},
)
