"""Loads of one device written by hand: tasks beside crowds whose fair share is known."""

from __future__ import annotations

from typing import Any

import numpy as np

from iqcar.model.demand.device import Load

BYTES = 1e8
"""What every task moves: enough for a speed to mean something."""


def fair(capacity: float, crowd: np.ndarray, each: float) -> np.ndarray:
    """The share of a task beside others of one own rate."""
    return np.maximum(capacity - crowd * min(each, capacity), capacity / (crowd + 1))


def load_of(
    speed: Any, crowd: Any, *, each: float = np.inf, stage: Any = 0, host: Any = 0, top: float = 1e7
) -> Load:
    """Tasks of these speeds beside a crowd of this size, every one of which could move ``each``."""
    speed, crowd, stage, host = np.broadcast_arrays(
        np.asarray(speed, float), np.asarray(crowd, float), stage, host
    )
    levels = np.unique([min(each, top), top])
    return Load(
        data=np.full(len(speed), BYTES),
        wait_ms=BYTES / speed,
        others=crowd.copy(),
        own=np.zeros(len(speed)),
        busy=np.ones(len(speed)),
        levels=np.broadcast_to(levels, (len(speed), len(levels))),
        taken=crowd[:, None] * np.minimum(each, levels),
        host=host.astype(np.int64),
        stage=stage.astype(np.int64),
        launch=np.arange(len(speed), dtype=np.float64),
    )
