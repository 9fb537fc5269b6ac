"""Names of queries as every report shows them, told apart where several have one name."""

from __future__ import annotations

from collections import Counter
from functools import cached_property

import pandas as pd

from iqcar.base.units import run_numbers, short
from iqcar.tables import texts

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

    def recurring(self, row: int, runs: int) -> str:
        """Name of a recurring query of so many runs."""
        return f"{self.name(row)} ({runs} runs)" if runs > 1 else self.called(row)

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
