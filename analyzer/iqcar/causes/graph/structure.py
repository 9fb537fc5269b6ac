"""Builds the vertices and edges of iQC-Graph as arrays, without an object per vertex.

Levels 0 to 4 form a forest (iQCAR §5.2: the explanations of different target stages are
disjoint), so every vertex of levels 1 to 4 has exactly one edge towards level 0, stored as one
position. A blame explanation (level 4) has one source stage (level 5), and a source stage one
source query (level 6); all targets share the vertices of levels 5 and 6.

One pass over the levels computes ``IF_uv = VC_u / Σ VC of v's in-neighbours`` (eq. 13) and
``DOR_u = Σ_v IF_uv · DOR_v`` (iQCAR §6.1, appendix B.1 and B.2). Started with the lost time of each
target instead of 1, the same pass computes lost time instead of DOR.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from iqcar.causes.blame.attribute import Blame
from iqcar.causes.blame.blame_tables import BLAME_KINDS, KNOWN, OWN, QUERY, REST, UNATTRIBUTED
from iqcar.causes.blame.demand_weights import (
    DemandLevels,
    compact,
    contributions,
    demand_levels,
    impact_factors,
    non_negative,
    positions,
)
from iqcar.tables import NONE, Tables
from iqcar.tables.arrays import Floats, Ints, sum_by

EXPLAINED_LEVELS = 5
"""Number of levels, from level 0 on, whose vertices belong to exactly one target."""


@dataclass(frozen=True)
class Structure:
    """Vertices of every level as columns of int64; level l has ``n<l>`` vertices.

    targets: (n0,) query row of each target, in the order given.
    towards: tuple of five ndarray, one per level 0 to 4; ``towards[l]``, of shape (nl,), is the
        position at level l − 1 that each vertex's edge leads to; empty at level 0.
    target: tuple of five ndarray, one per level 0 to 4; ``target[l]``, of shape (nl,), is the
        position in ``targets`` of each vertex's target.
    stage: (n1,) row of the target stage.
    resource: (n2,) code of the resource.
    demand, request, host: (n3,) row in ``Blame.demands``, and its columns of these names.
    explanation, kind: (n4,) row in ``Blame.sources``, and its kind of blame.
    source: (n4,) position of the source stage at level 5.
    source_stage: (n5,) row of the stage; −1 for the shared causes, which come last.
    query_of_source: (n5,) position of the source query at level 6.
    source_query: (n6,) row of the query; −1 for the shared causes, which come last.
    shared: the last vertices of levels 5 and 6: ``rest`` if any source was folded, then ``known``
        and ``unattributed``.
    """

    targets: Ints
    towards: tuple[Ints, ...]
    target: tuple[Ints, ...]
    stage: Ints
    resource: Ints
    demand: Ints
    request: Ints
    host: Ints
    explanation: Ints
    kind: Ints
    source: Ints
    source_stage: Ints
    query_of_source: Ints
    source_query: Ints
    shared: tuple[str, ...]

    @property
    def levels(self) -> DemandLevels:
        """Levels 1 to 3."""
        return DemandLevels(
            stage=self.stage, target_of_stage=self.towards[1], resource=self.resource,
            stage_of_resource=self.towards[2], demand=self.demand,
            resource_of_demand=self.towards[3],
        )  # fmt: skip

    def sizes(self) -> tuple[int, ...]:
        """Count the vertices of each of the seven levels."""
        return (
            *(len(column) for column in self.target),
            len(self.source_stage),
            len(self.source_query),
        )


def chosen_targets(targets: Sequence[int] | None, queries: int) -> Ints:
    """Return the query rows to explain: all, or those given, without repeats.

    Raises ValueError if a row is not one of the ``queries`` rows.
    """
    if targets is None:
        return np.arange(queries, dtype=np.int64)
    rows = np.array(list(dict.fromkeys(int(t) for t in targets)), np.int64)
    wrong = rows[(rows < 0) | (rows >= queries)]
    if len(wrong):
        raise ValueError(f"no query in row {int(wrong[0])}: there are {queries} queries")
    return rows


def lay_out(tables: Tables, blame: Blame, targets: Ints, critical_path: bool) -> Structure:
    """Build levels 0 to 6 for some targets (iQCAR §5.1 to §5.5, table 2).

    Stages without a demand have no vertex, and a target that lost no time to contention has only
    its level-0 vertex. Raises ValueError if a demand does not have exactly one known and one
    unattributed explanation.
    """
    demands, sources = blame.demands, blame.sources
    levels = demand_levels(tables, demands, blame.stages, targets, critical_path)
    demand_in = np.zeros(len(demands), bool)
    demand_in[levels.demand] = True
    source_demand = column(sources, "demand")
    explanation = np.flatnonzero(demand_in[source_demand])
    kind = column(sources, "kind")[explanation]
    demand_of_explanation = positions(demand_in)[source_demand[explanation]]
    for code in (KNOWN, UNATTRIBUTED):
        count = np.bincount(demand_of_explanation[kind == code], minlength=len(levels.demand))
        if (count != 1).any():
            raise ValueError(f"a demand has {BLAME_KINDS[code]} explanations other than one")
    towards = (
        np.zeros(0, np.int64),
        levels.target_of_stage,
        levels.stage_of_resource,
        levels.resource_of_demand,
        demand_of_explanation,
    )
    target = [np.arange(len(targets), dtype=np.int64), levels.target_of_stage]
    for position in towards[2:]:
        target.append(target[-1][position])
    stage_query = column(tables.stages, "query")
    shared = _shared_levels(column(sources, "source_stage")[explanation], kind, stage_query)
    return Structure(
        targets=targets, towards=towards, target=tuple(target), stage=levels.stage,
        resource=levels.resource, demand=levels.demand,
        request=column(demands, "request")[levels.demand],
        host=column(demands, "host")[levels.demand], explanation=explanation, kind=kind, **shared,
    )  # fmt: skip


def _shared_levels(source_stage: Ints, kind: Ints, stage_query: Ints) -> dict[str, Any]:
    """Return levels 5 and 6, which all targets share, with the causes that are no query last."""
    shared = [REST] if (kind == REST).any() else []
    shared += [KNOWN, UNATTRIBUTED]
    names = tuple(BLAME_KINDS[code].value for code in shared)
    if len(source_stage) == 0:
        none = np.zeros(0, np.int64)
        columns = ("source", "source_stage", "query_of_source", "source_query")
        return {**dict.fromkeys(columns, none), "shared": names}
    by_stage = (kind == QUERY) | (kind == OWN)
    stages, position = compact(source_stage[by_stage], len(stage_query))
    place_of_kind = np.zeros(len(BLAME_KINDS), np.int64)
    place_of_kind[shared] = len(stages) + np.arange(len(shared))
    source = place_of_kind[kind]
    source[by_stage] = position
    # A stage without a known query has its own vertex; at level 6 it is unattributed.
    query = stage_query[stages]
    named = query >= 0
    queries, query_position = compact(query[named], int(query.max(initial=NONE)) + 1)
    last = len(queries) + np.arange(len(shared))
    of_stages = np.full(len(stages), last[-1], np.int64)
    of_stages[named] = query_position
    pseudo = np.full(len(shared), NONE, np.int64)
    return {
        "source": source,
        "source_stage": np.concatenate([stages, pseudo]),
        "query_of_source": np.concatenate([of_stages, last]),
        "source_query": np.concatenate([queries, pseudo]),
        "shared": names,
    }


def column(frame: pd.DataFrame, name: str) -> Ints:
    """Return an integer column as int64."""
    values: Ints = frame[name].to_numpy().astype(np.int64, copy=False)
    return values


DENSE_CELLS_PER_ENTRY = 4
"""Maximum cells per entry for which sums per (source, target) use a full matrix; beyond it, sorting
the entries takes less memory and time."""


@dataclass(frozen=True)
class Flow:
    """An amount passed from the targets to the vertices of levels 0 to 4.

    Each attribute has one array per level, of shape (n_vertices_of_level,).

    contribution: VC of each vertex.
    impact_factor: IF of the vertex's edge towards level 0; 1 at level 0.
    amount: DOR, or lost time in ms.
    """

    contribution: tuple[Floats, ...]
    impact_factor: tuple[Floats, ...]
    amount: tuple[Floats, ...]


@dataclass(frozen=True)
class ByTarget:
    """A sparse source × target matrix: one entry per pair that a path connects."""

    source: Ints
    target: Ints
    dor: Floats
    lost_ms: Floats


def all_contributions(
    structure: Structure, stages: pd.Series, demands: pd.Series, sources: pd.Series
) -> tuple[Floats, ...]:
    """Return the vertex contributions VC of levels 0 to 4.

    stages, demands, sources: what each row of these frames of a Blame contributes.
    """
    return (
        np.ones(len(structure.targets)),
        *contributions(structure.levels, stages, demands),
        non_negative(sources)[structure.explanation],
    )


def pass_up(structure: Structure, contribution: tuple[Floats, ...], at_targets: Floats) -> Flow:
    """Divide an amount of each target among the vertices of levels 1 to 4 (algorithms 1 and 2).

    Where no in-neighbour of a vertex contributes, those of levels 1 to 3 get equal parts, and at
    level 4 the unattributed explanation gets all, so each target's amount is preserved at every
    level.

    contribution: from :func:`contributions`.
    at_targets: (n0,) 1 for DOR, or the lost time of each target in ms.
    """
    factors: list[Floats] = [np.ones(len(structure.targets))]
    amounts: list[Floats] = [at_targets]
    for level in range(1, EXPLAINED_LEVELS):
        towards = structure.towards[level]
        below = amounts[-1]
        only = structure.kind == UNATTRIBUTED if level == EXPLAINED_LEVELS - 1 else None
        factor = impact_factors(contribution[level], towards, len(below), only)
        factors.append(factor)
        amounts.append(factor * below[towards])
    return Flow(contribution, tuple(factors), tuple(amounts))


def by_source(structure: Structure, dor: Flow, lost: Flow) -> tuple[ByTarget, ByTarget]:
    """Return DOR and lost time per source stage and per source query, for each target.

    Each explanation has one source stage and each source stage one query, so IF is 1 on the
    edges of levels 5 and 6 and DOR is a plain sum; it is kept per target (iQCAR §6.1).
    """
    stages = sum_pairs(
        structure.source, structure.target[4], len(structure.source_stage),
        targets=len(structure.targets), dor=dor.amount[4], lost_ms=lost.amount[4],
    )  # fmt: skip
    queries = sum_pairs(
        structure.query_of_source[stages.source], stages.target, len(structure.source_query),
        targets=len(structure.targets), dor=stages.dor, lost_ms=stages.lost_ms,
    )  # fmt: skip
    return stages, queries


def sum_pairs(
    source: Ints, target: Ints, sources: int, targets: int, dor: Floats, lost_ms: Floats
) -> ByTarget:
    """Sum the entries of each (source, target), sorted by source, then target."""
    key = source * targets + target
    cells = sources * targets
    if cells <= DENSE_CELLS_PER_ENTRY * max(len(key), 1):
        present = np.zeros(cells, bool)
        present[key] = True
        pairs = np.flatnonzero(present)
        dor_sum = sum_by(key, dor, cells)[pairs]
        lost_sum = sum_by(key, lost_ms, cells)[pairs]
    else:
        pairs, position = np.unique(key, return_inverse=True)
        dor_sum = sum_by(position, dor, len(pairs))
        lost_sum = sum_by(position, lost_ms, len(pairs))
    divisor = max(targets, 1)
    return ByTarget(pairs // divisor, pairs % divisor, dor_sum, lost_sum)
