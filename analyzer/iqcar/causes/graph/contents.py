"""Holds an iQC-Graph: vertices, impact factors, DOR, lost time, and names of vertices."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from iqcar.causes.graph.structure import ByTarget, Flow, Structure, column
from iqcar.tables import NONE, texts
from iqcar.tables.arrays import Floats, Ints


@dataclass(frozen=True)
class Names:
    """Names of queries, stages and hosts by row, for the ids and labels of vertices."""

    queries: pd.DataFrame
    stages: pd.DataFrame
    hosts: pd.DataFrame

    @cached_property
    def query_ids(self) -> list[str]:
        """Query ids by row."""
        return texts(self.queries, "query_id")

    @cached_property
    def query_names(self) -> list[str]:
        """Query names by row."""
        return texts(self.queries, "name")

    @cached_property
    def host_names(self) -> list[str]:
        """Host names by row."""
        return texts(self.hosts, "host")

    @cached_property
    def stage_numbers(self) -> list[str]:
        """``stage id.attempt`` by row."""
        pairs = zip(column(self.stages, "stage_id"), column(self.stages, "attempt"), strict=True)
        return [f"{stage}.{attempt}" for stage, attempt in pairs]

    @cached_property
    def stage_query(self) -> Ints:
        """The query of each stage row."""
        return column(self.stages, "query")

    def host(self, row: int) -> str:
        """Return the name of a host; row −1 is a wait without a recorded host."""
        return self.host_names[row] if row >= 0 else "unknown host"

    def stage_key(self, row: int) -> str:
        """Return the id of a stage: its query's id, stage id and attempt."""
        query = int(self.stage_query[row])
        owner = self.query_ids[query] if query >= 0 else f"row-{row}"
        return f"{owner}/stage-{self.stage_numbers[row]}"

    def stage_label(self, row: int) -> str:
        """Return the display name of a stage: its number and its query."""
        query = int(self.stage_query[row])
        of_query = f" of {self.query_names[query]}" if query >= 0 else ""
        return f"stage {self.stage_numbers[row]}{of_query}"


@dataclass(frozen=True)
class Contents:
    """Vertices, impact factors, DOR and lost time of an iQC-Graph.

    dor: DOR.
    lost: elapsed lost time in ms.
    by_stage, by_query: DOR and lost time per target and source stage, or source query.
    folded: frame of `FOLDED`.
    idle_share: (n_sources,) part of the lost time of each row of ``Blame.sources`` in which
        executors were idle.
    """

    structure: Structure
    dor: Flow
    lost: Flow
    by_stage: ByTarget
    by_query: ByTarget
    names: Names
    folded: pd.DataFrame
    idle_share: Floats

    @cached_property
    def duration_ms(self) -> Floats:
        """Durations of the targets: ndarray of shape (n0,), ms; NaN where unknown."""
        durations = self.names.queries["duration_ms"].to_numpy(np.float64)
        chosen: Floats = durations[self.structure.targets]
        return chosen

    @cached_property
    def explanations_of_target(self) -> tuple[Ints, Ints]:
        """Level-4 positions sorted by target, shape (n4,), and each target's first, (n0 + 1,)."""
        target = self.structure.target[4]
        order = np.argsort(target, kind="stable")
        counts = np.bincount(target, minlength=len(self.structure.targets))
        return order, np.concatenate([[0], np.cumsum(counts)])

    @cached_property
    def stage_of_resource(self) -> Ints:
        """Stage row of each level-2 vertex: ndarray of shape (n2,)."""
        return self.structure.stage[self.structure.towards[2]]

    @cached_property
    def resource_of_demand(self) -> Ints:
        """Resource code of each level-3 vertex: ndarray of shape (n3,)."""
        return self.structure.resource[self.structure.towards[3]]

    @cached_property
    def query_of_explanation(self) -> Ints:
        """Level-6 position of the source query of each level-4 vertex: ndarray of shape (n4,)."""
        return self.structure.query_of_source[self.structure.source]

    def rest_name(self, query: int) -> str:
        """Return the name of a target's rest row: the number of queries that it sums."""
        folded = int(self.folded["sources"].iloc[query]) if len(self.folded) else 0
        return f"{folded:,} other queries" if folded else "other queries"

    def position_of(self, query: int) -> int:
        """Return the position of a query row among the targets.

        Raises ValueError if the graph was not built for that target.
        """
        at = self._position_of_row.get(int(query))
        if at is None:
            raise ValueError(f"query row {query} is not a target of this graph")
        return at

    @cached_property
    def _position_of_row(self) -> dict[int, int]:
        return {row: at for at, row in enumerate(self.structure.targets.tolist())}

    def positions_of(self, queries: object | None) -> Ints:
        """Return the positions of one or several query rows; of all targets for ``None``."""
        if queries is None:
            return np.arange(len(self.structure.targets), dtype=np.int64)
        rows = np.atleast_1d(np.asarray(queries, np.int64))
        found = [self.position_of(int(q)) for q in dict.fromkeys(rows.tolist())]
        return np.array(found, np.int64)

    def share_of_duration(self, lost_ms: Floats, target: Ints) -> Floats:
        """Return lost time as a share of the target's duration; 0 where that is unknown or 0."""
        duration = self.duration_ms[target]
        known = np.isfinite(duration) & (duration > 0)
        return np.where(known, lost_ms / np.where(known, duration, 1.0), 0.0)


def pseudo_name(structure: Structure, position: int, size: int) -> str:
    """Return the name of the shared cause at a level-5 or level-6 position; else empty."""
    behind_last = position - (size - len(structure.shared))
    return structure.shared[behind_last] if behind_last >= 0 else ""


def rows_or_none(rows: Ints, positions: Ints) -> Ints:
    """Return ``rows[positions]``, with −1 where the position is −1."""
    if len(rows) == 0:
        return np.full(len(positions), NONE, np.int64)
    return np.where(positions >= 0, rows[np.maximum(positions, 0)], NONE)
