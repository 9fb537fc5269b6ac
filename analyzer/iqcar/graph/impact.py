"""Impact factors and degrees of responsibility (iQCAR §6.1, appendix B.1 and B.2).

Both are one pass over numpy columns, level by level: ``IF_uv = VC_u / Σ VC of v's in-neighbours``
(eq. 13) and ``DOR_u = Σ_v IF_uv · DOR_v``. The same pass carries lost time instead of DOR when it
starts with the time a target lost instead of 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from iqcar.blame.attribute import UNATTRIBUTED
from iqcar.enums import ImpactModel
from iqcar.graph.structure import EXPLAINED_LEVELS, non_negative
from iqcar.tables.arrays import sum_by

if TYPE_CHECKING:
    from iqcar.blame.attribute import Blame
    from iqcar.graph.structure import Structure
    from iqcar.tables.arrays import Flags, Floats, Ints

    Bools = Flags

DENSE_CELLS_PER_ENTRY = 4
"""A (source × target) sum is made in a full matrix while that has at most this many cells per
entry to add up; beyond it, sorting the entries is cheaper in memory and in time."""


@dataclass(frozen=True)
class Flow:
    """What reaches each vertex of levels 0 to 4 when it is passed up from the targets.

    Attributes
    ----------
    contribution : five arrays (nl,): VC of each vertex.
    impact_factor : five arrays (nl,): IF of the vertex's edge towards level 0 (1 at level 0).
    amount : five arrays (nl,): DOR, or lost time in ms.
    """

    contribution: tuple[Floats, ...]
    impact_factor: tuple[Floats, ...]
    amount: tuple[Floats, ...]


@dataclass(frozen=True)
class ByTarget:
    """A sparse (source × target) table: one entry per pair that is connected by a path."""

    source: Ints
    target: Ints
    dor: Floats
    lost_ms: Floats


def contributions(structure: Structure, blame: Blame, model: ImpactModel) -> tuple[Floats, ...]:
    """Vertex contributions VC of levels 0 to 4.

    ``TIME_LOST``: time lost to contention in ms, elapsed at level 1 and task time below.
    ``PAPER``: 1, cumulative CPU time, cumulative RATP (eq. 7 and 8) and blame (eq. 9).
    """
    if model is ImpactModel.PAPER:
        stage, demand, source = blame.stages["cpu_ms"], blame.demands["ratp"], blame.sources["beta"]
    else:
        stage, demand = blame.stages["lost_ms"], blame.demands["lost_ms"]
        source = blame.sources["lost_ms"]
    of_demand = non_negative(demand)[structure.demand]
    of_resource = sum_by(structure.towards[3], of_demand, len(structure.resource))
    return (
        np.ones(len(structure.targets)),
        non_negative(stage)[structure.stage],
        of_resource,
        of_demand,
        non_negative(source)[structure.explanation],
    )


def impact_factors(
    contribution: Floats, towards: Ints, vertices: int, only: Bools | None = None
) -> Floats:
    """Impact factor of each vertex's edge towards level 0 (eq. 13).

    Parameters
    ----------
    contribution : (n,) VC of each vertex.
    towards : (n,) the vertex each edge leads to.
    vertices : how many vertices those are.
    only : (n,) bool, optional
        Who takes everything where no in-neighbour contributes; otherwise all take equal parts.

    Returns
    -------
    (n,) array; the entries that lead to one vertex sum to 1.
    """
    total = sum_by(towards, contribution, vertices)
    total_of_edge = total[towards]
    with np.errstate(divide="ignore", invalid="ignore"):
        factors: Floats = contribution / total_of_edge
    nobody = total_of_edge == 0
    if nobody.any():
        if only is None:
            equal = 1.0 / np.maximum(np.bincount(towards, minlength=vertices), 1)
            factors = np.where(nobody, equal[towards], factors)
        else:
            factors = np.where(nobody, only, factors)
    return factors


def pass_up(structure: Structure, contribution: tuple[Floats, ...], at_targets: Floats) -> Flow:
    """Pass an amount from the targets up to the blame explanations (algorithms 1 and 2).

    Where no in-neighbour of a vertex contributes, levels 1 to 3 take equal parts and the
    unattributed explanation takes level 4, so that at every level each target's amount is whole.

    Parameters
    ----------
    at_targets : (n0,) 1 for DOR, or the time each target lost in ms.
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
    """Sum DOR and lost time per source stage and per source query, for each target.

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
    """Add up entries of the same (source, target), ordered by source, then target."""
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
