"""Computes impact factors and degrees of responsibility (iQCAR §6.1, appendix B.1 and B.2).

One pass over the levels computes ``IF_uv = VC_u / Σ VC of v's in-neighbours`` (eq. 13) and
``DOR_u = Σ_v IF_uv · DOR_v``. Started with the lost time of each target instead of 1, the same pass
computes lost time instead of DOR.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from iqcar.causes.blame.attribute import Blame
from iqcar.causes.blame.blame_tables import UNATTRIBUTED
from iqcar.causes.blame.demand_weights import contributions, impact_factors, non_negative
from iqcar.causes.graph.structure import EXPLAINED_LEVELS, Structure
from iqcar.enums import ImpactModel
from iqcar.tables.arrays import Floats, Ints, sum_by

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


def all_contributions(structure: Structure, blame: Blame, model: ImpactModel) -> tuple[Floats, ...]:
    """Return the vertex contributions VC of levels 0 to 4: 1, those of demands, and of blame.

    Blame counts by time lost, or by β under ``PAPER`` (eq. 9).
    """
    source = blame.sources["beta" if model is ImpactModel.PAPER else "lost_ms"]
    return (
        np.ones(len(structure.targets)),
        *contributions(structure.levels, blame.demands, blame.stages, model),
        non_negative(source)[structure.explanation],
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
        structure.source,
        structure.target[4],
        len(structure.source_stage),
        len(structure.targets),
        dor.amount[4],
        lost.amount[4],
    )
    queries = sum_pairs(
        structure.query_of_source[stages.source],
        stages.target,
        len(structure.source_query),
        len(structure.targets),
        stages.dor,
        stages.lost_ms,
    )
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
