"""Names of queries as every report shows them, told apart where several have one name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import pandas as pd

from iqcar.base.units import run_numbers, short
from iqcar.tables import Tables, recurring_queries, texts
from iqcar.tables.arrays import Floats, Ints

NAME_WIDTH = 60
"""Characters of a name in a sentence."""
NUMBER_WIDTH = 24
"""Characters of what tells two queries of one name apart; ids of job groups can be long."""


class QueryNames:
    """Looks up names and ids of queries by row; every name is one printable line.

    Parameters
    ----------
    queries : DataFrame of :data:`iqcar.tables.QUERIES`
    applications : DataFrame of :data:`iqcar.tables.APPLICATIONS`, optional
        For the names of their applications.
    """

    def __init__(self, queries: pd.DataFrame, applications: pd.DataFrame | None = None) -> None:
        self._application: list[str] = []
        if applications is not None:
            of_app = texts(applications, "name")
            self._application = [of_app[app] for app in queries["app"].tolist()]
        self.ids = texts(queries, "query_id")
        self.full = texts(queries, "name")

    def name(self, row: int, width: int = NAME_WIDTH) -> str:
        """Name of a query; its number where it has none."""
        return short(self.full[row], width) or self.number(row)

    def number(self, row: int) -> str:
        """What tells runs of one query apart; see :func:`iqcar.base.units.run_numbers`."""
        return short(self._numbers[row], NUMBER_WIDTH)

    def called(self, row: int, width: int = NAME_WIDTH) -> str:
        """Name of a query; with its number where another one is called the same."""
        name = self.name(row, width)
        alone = short(self.full[row], NAME_WIDTH) not in self._repeated
        return name if alone or name == self.number(row) else f"{name} ({self.number(row)})"

    def of_application(self, row: int) -> str:
        """`` of nightly``: the name of a query's application; empty where it has none."""
        name = self._application[row] if self._application and row >= 0 else ""
        return f" of {short(name, NUMBER_WIDTH)}" if name else ""

    def row_of(self, query_id: str) -> int:
        """Row of a query by its id."""
        return self._rows[query_id]

    @cached_property
    def _numbers(self) -> list[str]:
        return run_numbers(self.ids, self.full)

    @cached_property
    def _repeated(self) -> set[str]:
        shown = Counter(short(name, NAME_WIDTH) for name in self.full)
        return {name for name, times in shown.items() if times > 1}

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {query_id: row for row, query_id in enumerate(self.ids)}


class RecurringNames(QueryNames):
    """Names of recurring queries, each by the row of any of its runs.

    Attributes
    ----------
    first : list of int
        Row of the first run of each query's recurring query.
    runs : list of int
        How many runs each query's recurring query has.
    ran_ms : (n_queries,)
        How long all runs of each query's recurring query took together, as far as known.
    """

    def __init__(self, tables: Tables) -> None:
        super().__init__(tables.queries, tables.applications)
        _, first, of, runs = np.unique(
            recurring_queries(tables), return_index=True, return_inverse=True, return_counts=True
        )
        self.first: list[int] = first[of].tolist()
        self.runs: list[int] = runs[of].tolist()
        duration = np.nan_to_num(tables.queries["duration_ms"].to_numpy(np.float64))
        self.ran_ms: Floats = np.bincount(of, duration, len(first)).astype(np.float64)[of]
        self._names: dict[int, set[str]] = {}
        for row, name in zip(self.first, self.full, strict=True):
            self._names.setdefault(row, set()).add(name)

    def called(self, row: int, width: int = NAME_WIDTH) -> str:
        """Name of a recurring query, with the number of its runs."""
        runs = self.runs[row]
        if runs == 1:
            return super().called(row, width)
        if len(self._names[self.first[row]]) == 1:
            return f"{self.name(row, width)} ({runs} runs)"
        return f"{self.name(row, width)} and {runs - 1} more of the same description"

    def first_runs(self, rows: Ints) -> Ints:
        """Rows of the first runs of the recurring queries of some; negative rows stay."""
        return np.where(rows >= 0, np.array(self.first, np.int64)[np.maximum(rows, 0)], rows)

    def labels(self, rows: Sequence[int], width: int) -> list[str]:
        """Label recurring queries with few letters and the number of runs; no two are equal."""
        lines = [
            self.name(row, width) + (f" ({self.runs[row]} runs)" if self.runs[row] > 1 else "")
            for row in rows
        ]
        ends = run_numbers([self.ids[row] for row in rows], lines)
        return [
            line if lines.count(line) == 1 else f"{line} {short(end, NUMBER_WIDTH)}"
            for line, end in zip(lines, ends, strict=True)
        ]

    def runs_of(self, queries: Sequence[int]) -> list[list[int]]:
        """All runs of the recurring queries of some queries, those named first."""
        runs: dict[int, list[int]] = {self.first[query]: [] for query in queries}
        for query in dict.fromkeys([*queries, *range(len(self.first))]):
            if self.first[query] in runs:
                runs[self.first[query]].append(query)
        return list(runs.values())
