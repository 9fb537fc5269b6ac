"""Spark event logs, wherever and however they are stored, read into tables.

Submodules are imported on first use: processes that decode blocks need none of the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from iqcar.eventlog.plugin.sample_files import join_samples as join_samples
    from iqcar.eventlog.read import ReadProgress as ReadProgress
    from iqcar.eventlog.read import read_logs as read_logs

__all__ = ["ReadProgress", "join_samples", "read_logs"]

_HOMES = {
    "ReadProgress": "iqcar.eventlog.read",
    "join_samples": "iqcar.eventlog.plugin.sample_files",
    "read_logs": "iqcar.eventlog.read",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'iqcar.eventlog' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
