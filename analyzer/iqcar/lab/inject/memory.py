"""The memory anomaly: processes that hold memory and write to it again and again.

BigRoots has none; Spark's own memory is fixed, so what this takes from a host is the page cache,
memory bandwidth, and room for everything outside the heap.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from typing import ClassVar

from iqcar.errors import UsageError
from iqcar.lab.inject.anomalies import Anomaly, Order, Settings
from iqcar.lab.inject.host_limits import check_memory, memory_is_tight
from iqcar.lab.inject.pacing import Turn

STEP_BYTES = 8 << 20
"""A hog looks at its clock after touching this much: a few milliseconds."""
PAGE_BYTES = mmap.PAGESIZE


@dataclass(frozen=True)
class MemorySettings(Settings):
    """Processes that hold memory; by default one.

    Parameters
    ----------
    size_bytes : int
        Bytes held at most, over all hogs.
    """

    anomaly: ClassVar[Anomaly] = Anomaly.MEMORY

    size_bytes: int = 512 << 20

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        super().__post_init__()
        if self.size_bytes < self.processes * STEP_BYTES:
            what = f"{self.size_bytes} bytes are less than 8 MB for each of {self.processes} hogs"
            raise UsageError(what, "--size", "ask for more, or fewer --processes")

    def default_processes(self) -> int:
        """One."""
        return 1

    def check_room(self) -> None:
        """Refuse more than a share of what is available."""
        check_memory(self.size_bytes)

    def hog(self, order: Order, turn: Turn) -> dict[str, float]:
        """Touch every page again and again; stops growing where the host gets tight."""
        size = self.size_bytes // self.processes // STEP_BYTES * STEP_BYTES
        held = size
        walks = 0
        stamp = 0
        with mmap.mmap(-1, size) as memory:
            touched = 0
            while not turn.over():
                at = 0
                while at < held and not turn.over():
                    if at == touched and memory_is_tight():
                        held = at
                        break
                    stamp = (stamp + 1) % 256
                    pages = STEP_BYTES // PAGE_BYTES
                    memory[at : at + STEP_BYTES : PAGE_BYTES] = bytes([stamp]) * pages
                    at += STEP_BYTES
                    touched = max(touched, at)
                walks += at == held > 0
                if held == 0:
                    turn.sleep(1)
        return {"held_bytes": touched, "walks": walks}
