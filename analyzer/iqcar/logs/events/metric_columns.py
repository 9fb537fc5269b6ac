"""The SQL metrics that plans declare, as columns, and the values that Spark told of them."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Container, Iterable
from itertools import compress, islice, repeat
from math import isnan, nan

import numpy as np
from numpy.typing import NDArray

_LARGEST = 2.0**63
"""No sum of a metric reaches this: Spark counts in 64-bit integers."""


class MetricColumns:
    """Metrics in the order in which they were declared.

    Attributes
    ----------
    rows : each accumulator's row.
    runs : list of (int, int); an SQL execution, and how many metrics it declared first; the next
        ones, and so on.
    nodes, names, units : its plan node, its name, and the unit of the table.
    factors : array of float64; what makes that unit of Spark's.
    """

    def __init__(self) -> None:
        self.rows: dict[int, int] = {}
        self.runs: list[tuple[int, int]] = []
        self.nodes: list[str] = []
        self.names: list[str] = []
        self.units: list[str] = []
        self.factors = array("d")
        self._stages = array("d")
        self._driver = array("d")

    def __len__(self) -> int:
        return len(self.rows)

    def add(
        self,
        accumulators: Iterable[int],
        execution: int,
        nodes: Collection[str],
        names: Iterable[str],
        units: Iterable[str],
        factors: Iterable[float],
    ) -> None:
        """Add metrics that one execution declared, whose accumulators are new."""
        first, more = len(self.nodes), len(nodes)
        self.rows.update(zip(accumulators, range(first, first + more), strict=True))
        self.runs.append((execution, more))
        self.nodes += nodes
        self.names += names
        self.units += units
        self.factors.extend(factors)
        self._stages.extend(repeat(nan, more))
        self._driver.extend(repeat(nan, more))

    def told_by_stage(self, accumulator: int, value: float) -> None:
        """Take in Spark's own sum over all tasks so far; the last one counts."""
        self._stages[self.rows[accumulator]] = value

    def told_by_driver(self, accumulator: int, value: float) -> None:
        """Take in a value that the driver set; they are added up."""
        row = self.rows[accumulator]
        before = self._driver[row]
        self._driver[row] = value if isnan(before) else before + value

    def totals(self) -> NDArray[np.float64]:
        """Return each metric's sum in its unit: over tasks, or what the driver set; else NaN."""
        value = np.where(np.isnan(self._stages), self._driver, self._stages)
        return np.where(value < _LARGEST, value * np.array(self.factors), nan)

    def forget(self, accumulators: Container[float]) -> None:
        """Drop some metrics."""
        kept = [one not in accumulators for one in self.rows]
        self.rows = {one: row for row, one in enumerate(compress(self.rows, kept))}
        rows = iter(kept)
        self.runs = [(execution, sum(islice(rows, count))) for execution, count in self.runs]
        self.runs = [run for run in self.runs if run[1]]
        self.nodes = list(compress(self.nodes, kept))
        self.names = list(compress(self.names, kept))
        self.units = list(compress(self.units, kept))
        self.factors = array("d", compress(self.factors, kept))
        self._stages = array("d", compress(self._stages, kept))
        self._driver = array("d", compress(self._driver, kept))
