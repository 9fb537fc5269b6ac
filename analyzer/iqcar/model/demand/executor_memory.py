"""How much execution memory the settings give executors."""

from __future__ import annotations

from iqcar.base.units import read_size
from iqcar.tables import NONE, Tables, texts

RESERVED_BYTES = 300.0 * (1 << 20)
"""Of a heap that Spark leaves to itself (``RESERVED_SYSTEM_MEMORY_BYTES``)."""
FRACTION = 0.6
"""Default of ``spark.memory.fraction``."""
HEAP = "1g"
"""Default of ``spark.executor.memory`` and ``spark.driver.memory``."""


def memory_of_executor(tables: Tables, app: int) -> float:
    """Return the bytes of execution memory of an application's executors, by its settings."""
    conf = tables.conf
    mine = conf[((conf["app"] == app) & (conf["sql_execution"] == NONE)).to_numpy(bool)]
    settings = dict(zip(texts(mine, "key"), texts(mine, "value"), strict=True))
    if settings.get("spark.memory.offHeap.enabled", "").lower() == "true":
        return read_size(settings.get("spark.memory.offHeap.size", "0")) or 0.0
    local = settings.get("spark.master", "").startswith("local")
    heap = settings.get("spark.driver.memory" if local else "spark.executor.memory", HEAP)
    try:
        fraction = float(settings.get("spark.memory.fraction", FRACTION))
    except ValueError:
        fraction = FRACTION
    return max((read_size(heap, "m") or 0.0) - RESERVED_BYTES, 0.0) * fraction
