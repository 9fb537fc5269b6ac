"""Values of tables as JSON has them: Python numbers, and None for a number nobody knows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

METHOD = {"impact": "time-lost", "source_usage": "active"}
"""Fields of the settings that could be chosen once, with the only values they have now."""


def plain(value: Any) -> Any:
    """Return a cell of a table as JSON has it."""
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
