"""Replays of a recorded run under other shares, rules or clusters.

What a question may ask is declared without numpy, so `replay` is imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iqcar.base.lazy_names import lazy_names

if TYPE_CHECKING:
    from iqcar.replay.loop.run import replay as replay

__getattr__ = lazy_names(__name__, {"loop.run": ("replay",)})
