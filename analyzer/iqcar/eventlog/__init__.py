"""Spark event logs, wherever and however they are stored, read into tables."""

from __future__ import annotations

from iqcar.eventlog.plugin.sample_files import join_samples
from iqcar.eventlog.read import ReadProgress, read_logs

__all__ = ["ReadProgress", "join_samples", "read_logs"]
