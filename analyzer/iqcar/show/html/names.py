"""Names that the page shows: queries, stages and hosts, each once, shortened and printable."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from iqcar.base import limits
from iqcar.base.units import printable, short
from iqcar.diagnosis import Diagnosis
from iqcar.say.blamed import QueryNames
from iqcar.say.sentences import OthersLosses, run_words, wait_words
from iqcar.show.pictures.palette import query_colours
from iqcar.tables import texts
from iqcar.tables.arrays import Floats


class PageNames:
    """Looks up names by row, and remembers which rows the page has to know.

    Parameters
    ----------
    diagnosis : Diagnosis
    """

    def __init__(self, diagnosis: Diagnosis) -> None:
        self._diagnosis = diagnosis
        self._names = QueryNames(diagnosis.tables.queries)
        self._queries = _Index()
        self._stages = _Index()
        self._hosts = _Index()
        self._text_left = limits.TEXT_CHARACTERS

    def query(self, row: int) -> int:
        """Position on the page of a query; negative rows stay what they are."""
        return self._queries.of(row)

    def stage(self, row: int) -> int:
        """Position on the page of a stage."""
        return self._stages.of(row)

    def host(self, row: int) -> int:
        """Position on the page of a host."""
        return self._hosts.of(row)

    def to_dict(self) -> dict[str, Any]:
        """Lay out everything that was asked for, in order of position."""
        return {
            "queries": [self._query(row) for row in self._queries.rows],
            "stages": [self._stage(row) for row in self._stages.rows],
            "hosts": [printable(self._host_names[row]) for row in self._hosts.rows],
        }

    def _query(self, row: int) -> dict[str, Any]:
        queries = self._diagnosis.tables.queries
        duration = float(queries["duration_ms"].iloc[row])
        known = bool(np.isfinite(duration))
        lost = float(self._lost[row])
        # Rounding of summed times can lift the loss over the duration by a hair.
        lost = min(lost, duration) if duration > 0 else lost
        to_others = float(self._others.lost[row])
        ended = bool(queries["ended"].iloc[row])
        ran = run_words(lost, self._others.of([row]), ended)
        one = {
            "id": printable(self._names.ids[row]),
            "name": self._names.name(row, limits.NAME_CHARACTERS),
            "number": self._names.number(row),
            "colour": self._colours[row],
            "ran": round(duration, 3) if known else None,
            "lost": round(lost, 3),
            "toOthers": round(to_others, 3),
            "ended": ended,
            "failed": bool(queries["failed"].iloc[row]),
            "said": f" ({self._names.number(row)}) {ran}. Its tasks waited: "
            f"{wait_words(self._diagnosis, row)}.",
        }
        text = "".join(c if c == "\n" else printable(c) for c in self._names.full[row])
        if text != one["name"] and len(text) <= self._text_left:
            self._text_left -= len(text)
            one["text"] = text
        return one

    def _stage(self, row: int) -> dict[str, Any]:
        stages = self._diagnosis.tables.stages
        query = int(stages["query"].iloc[row])
        return {
            "id": f"{stages['stage_id'].iloc[row]}.{stages['attempt'].iloc[row]}",
            "name": short(str(stages["name"].iloc[row]), limits.NAME_CHARACTERS),
            "query": self._queries.known(query),
            "critical": bool(stages["critical"].iloc[row]),
        }

    @cached_property
    def _host_names(self) -> list[str]:
        return texts(self._diagnosis.tables.hosts, "host")

    @cached_property
    def _colours(self) -> list[str]:
        return query_colours(self._diagnosis.tables.queries)

    @cached_property
    def _lost(self) -> Floats:
        return self._diagnosis.lost_ms()

    @cached_property
    def _others(self) -> OthersLosses:
        ran = self._diagnosis.tables.queries["duration_ms"].to_numpy(np.float64)
        return OthersLosses(
            self._diagnosis, np.where(ran > 0, np.fmin(self._lost, ran), self._lost)
        )


class _Index:
    """Numbers rows in the order in which they are asked for."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self._at: dict[int, int] = {}

    def of(self, row: int) -> int:
        if row < 0:
            return row
        if row not in self._at:
            self._at[row] = len(self.rows)
            self.rows.append(row)
        return self._at[row]

    def known(self, row: int) -> int:
        return self._at.get(row, -1)
