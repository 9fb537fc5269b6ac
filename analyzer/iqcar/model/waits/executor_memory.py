"""Tells how much execution memory executors have by their settings, and what gives tasks more."""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

import numpy as np

from iqcar.base.units import read_size, size
from iqcar.tables import NONE, Tables, texts
from iqcar.tables.arrays import known_or_zero

RESERVED_BYTES = 300.0 * (1 << 20)
"""Of a heap that Spark leaves to itself (``RESERVED_SYSTEM_MEMORY_BYTES``)."""
FRACTION = 0.6
"""Default of ``spark.memory.fraction``."""
HEAP = "1g"
"""Default of ``spark.executor.memory`` and ``spark.driver.memory``."""
_OFF_HEAP = "spark.memory.offHeap.size"


class _Memory(NamedTuple):
    setting: str
    """The setting that says how large it is."""
    size: float
    fraction: float
    """Of a heap; 1 off the heap, where nothing is reserved."""
    reserved: float

    @property
    def execution(self) -> float:
        """Bytes for execution."""
        return max(self.size - self.reserved, 0.0) * self.fraction


def memory_of_executor(tables: Tables, app: int) -> float:
    """Return the bytes of execution memory of an application's executors, by its settings."""
    return _memory(memory_settings(tables).get(app, {}), HEAP).execution


def known_memory(settings: dict[str, str]) -> float:
    """Return the same, but NaN where the settings do not say it."""
    if settings.get("spark.memory.useLegacyMode", "").lower() == "true":
        return np.nan
    found = _memory(settings, "").execution
    return found if found > 0 else np.nan


def memory_for_tasks(tables: Tables, app: int, each: float) -> list[tuple[str, str, str]]:
    """Return name and value of settings that give each task so many bytes, and why.

    As many tasks run at once as an executor of the application has slots.
    """
    executors = tables.executors
    cores = known_or_zero(executors["cores"].to_numpy(np.float64)[(executors["app"] == app)])
    cpus = known_or_zero(tables.applications["task_cpus"].to_numpy(np.float64))[app]
    at_once = max(float(cores.max(initial=1.0)) // max(float(cpus), 1.0), 1.0)
    memory = _memory(memory_settings(tables).get(app, {}), HEAP)
    why = f"{at_once:.0f} × {size(each)} for tasks that run at once in an executor"
    fraction = max(memory.fraction, FRACTION)
    found = []
    if memory.fraction < FRACTION:
        found.append(("spark.memory.fraction", f"{FRACTION}", "it was set lower than Spark's own"))
    if memory._replace(fraction=fraction).execution < at_once * each:
        larger = ceil((at_once * each / fraction + memory.reserved) / 2**20)
        found.append((memory.setting, f"{larger}m", why))
    return found


def memory_settings(tables: Tables) -> dict[int, dict[str, str]]:
    """Return the settings that tell of memory, by application."""
    conf = tables.conf
    told = conf["key"].str.startswith(("spark.memory.", "spark.executor.", "spark.driver."))
    told |= conf["key"] == "spark.master"
    rows = conf[(told & (conf["sql_execution"] == NONE)).to_numpy(bool)]
    found: dict[int, dict[str, str]] = {}
    for app, key, value in zip(
        rows["app"].tolist(), texts(rows, "key"), texts(rows, "value"), strict=True
    ):
        found.setdefault(app, {})[key] = value
    return found


def _memory(settings: dict[str, str], default: str) -> _Memory:
    """Return what settings give; ``default`` is the heap that is meant where they do not say it."""
    if settings.get("spark.memory.offHeap.enabled", "").lower() == "true":
        return _Memory(_OFF_HEAP, read_size(settings.get(_OFF_HEAP, "0")) or 0.0, 1.0, 0.0)
    local = settings.get("spark.master", "").startswith("local")
    # In a local cluster executors are processes of their own.
    local &= not settings.get("spark.master", "").startswith("local-cluster")
    setting = "spark.driver.memory" if local else "spark.executor.memory"
    try:
        fraction = float(settings.get("spark.memory.fraction", FRACTION))
    except ValueError:
        fraction = FRACTION
    heap = read_size(settings.get(setting, default), "m") or 0.0
    return _Memory(setting, heap, fraction, RESERVED_BYTES)
