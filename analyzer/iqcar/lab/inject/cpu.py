"""The CPU anomaly (BigRoots section IV-A.1): processes that raise random numbers to a power."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import ClassVar

from iqcar.errors import UsageError
from iqcar.lab.inject.anomalies import Anomaly, Order, Settings, usable_cores
from iqcar.lab.inject.pacing import Turn

NUMBERS = 2000
"""The paper's million numbers would fill the processor's caches too; these fit into them."""
PERIOD_S = 0.05
"""A hog with a share works and rests once in this time: shorter than any sample of a host."""
EXPONENT = 1.000_1


@dataclass(frozen=True)
class CpuSettings(Settings):
    """Computing processes; by default one for each core (the paper: eight).

    Parameters
    ----------
    share : float
        Share of the time in which a hog wants a core, in (0, 1].
    """

    anomaly: ClassVar[Anomaly] = Anomaly.CPU

    share: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        super().__post_init__()
        if not 0 < self.share <= 1:
            raise UsageError(f"{self.share} is not above 0 and at most 1", "--share")

    def default_processes(self) -> int:
        """One for each core they may run on."""
        return len(self.cores or usable_cores())

    def hog(self, order: Order, turn: Turn) -> dict[str, float]:
        """Compute; ``rounds`` counts how often all numbers were raised."""
        numbers = [1 + random.random() for _ in range(NUMBERS)]  # noqa: S311
        rounds = 0
        while not turn.over():
            began = time.monotonic()
            while time.monotonic() < began + self.share * PERIOD_S:
                for number in numbers:
                    number**EXPONENT
                rounds += 1
            if self.share < 1:
                turn.sleep(began + PERIOD_S - time.monotonic())
        return {"rounds": rounds}
