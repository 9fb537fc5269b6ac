"""Lays out what iQC-Graph consists of: vertices, edges and contributions, level by level.

Ids start with the level and name the vertex: ``tq:`` target query, ``ts:`` target stage, ``ie:``
resource, ``de:`` request and host, ``be:`` blame explanation, ``ss:`` source stage, ``sq:``
source query.

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
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from iqcar.causes.blame.attribute import Blame
from iqcar.causes.blame.demand_weights import (
    BLAME_KINDS,
    KNOWN,
    OWN,
    QUERY,
    RESOURCES,
    REST,
    UNATTRIBUTED,
    DemandLevels,
    compact,
    contributions,
    demand_levels,
    impact_factors,
    non_negative,
    positions,
)
from iqcar.enums import LEVELS, REQUESTS, BlameKind, Resource
from iqcar.tables import NONE, Tables, texts
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
    def hurts(self) -> dict[Resource | None, pd.DataFrame]:
        """Who hurts whom by resource, as far as it was asked for."""
        return {}

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


PREFIXES = ("tq", "ts", "ie", "de", "be", "ss", "sq")
"""Prefixes of the ids, by level."""

SHARED_LABELS = {"rest": "other queries", "known": "known causes", "unattributed": "unattributed"}
"""Display names of the sources that are no query."""


def vertex_ids(contents: Contents, level: int, at: Ints) -> list[str]:
    """Return the ids of some vertices of a level, by position."""
    return [f"{PREFIXES[level]}:{key}" for key in _keys(contents, level, at)]


def vertex_frame(contents: Contents, level: int, at: Ints | None = None) -> pd.DataFrame:
    """Describe some or all vertices of a level.

    id, level, kind, label, contribution (VC), dor, lost_ms, own (whether it belongs to its only
    target), the rows target, stage, host, source_stage and source_query (−1 where the level has
    none), and the names resource and request (empty where the level has none). At levels 5 and 6,
    dor and lost_ms are sums over targets and target is −1. Raises ValueError if there is no such
    level.

    level: 0 to 6.
    at: positions at the level; all by default.
    """
    if not 0 <= level < len(LEVELS):
        raise ValueError(f"iQC-Graph has levels 0 to {len(LEVELS) - 1}, not {level}")
    structure = contents.structure
    if at is None:
        at = np.arange(structure.sizes()[level], dtype=np.int64)
    rows = _rows_of(contents, level, at)
    contribution, dor, lost = _amounts(contents, level, at)
    kinds = _kinds(contents, level, at)
    return pd.DataFrame(
        {
            "id": objects(vertex_ids(contents, level, at)),
            "level": np.full(len(at), level, np.int64),
            "kind": objects(kinds),
            "label": objects(vertex_labels(contents, level, at)),
            "contribution": contribution,
            "dor": dor,
            "lost_ms": lost,
            "own": np.array([kind == BlameKind.OWN.value for kind in kinds], bool),
            "target": rows["target"],
            "stage": rows["stage"],
            "resource": objects([RESOURCES[c].value if c >= 0 else "" for c in rows["resource"]]),
            "request": objects([REQUESTS[c].value if c >= 0 else "" for c in rows["request"]]),
            "host": rows["host"],
            "source_stage": rows["source_stage"],
            "source_query": rows["source_query"],
        }
    )


def edge_frame(contents: Contents) -> pd.DataFrame:
    """Return all edges: from_level, from_position, to_position and impact_factor.

    Edges lead to the level below. Positions are row numbers of the level's :func:`vertex_frame`.
    """
    structure = contents.structure
    sizes = structure.sizes()
    froms = [np.arange(n, dtype=np.int64) for n in sizes]
    tos = list(structure.towards)
    factors = list(contents.dor.impact_factor)
    explanations = froms[4]
    parts = [(level, froms[level], tos[level], factors[level]) for level in range(1, 5)]
    parts.append((5, structure.source, explanations, np.ones(sizes[4])))
    parts.append((6, structure.query_of_source, froms[5], np.ones(sizes[5])))
    return pd.DataFrame(
        {
            "from_level": np.concatenate([np.full(len(f), level) for level, f, _, _ in parts]),
            "from_position": np.concatenate([f for _, f, _, _ in parts]),
            "to_position": np.concatenate([t for _, _, t, _ in parts]),
            "impact_factor": np.concatenate([i for _, _, _, i in parts]),
        }
    )


def objects(values: Sequence[object]) -> pd.Series:
    """Return a column of objects."""
    return pd.Series(list(values), dtype=object)


def _rows_of(contents: Contents, level: int, at: Ints) -> dict[str, Ints]:
    """Return the rows and codes of vertices; −1 where the level has none."""
    s = contents.structure
    names = ("target", "stage", "resource", "request", "host", "source_stage", "source_query")
    rows = {name: np.full(len(at), NONE, np.int64) for name in names}
    if level <= 4:
        rows["target"] = s.targets[s.target[level][at]]
    if level == 4:
        rows["source_stage"] = s.source_stage[s.source[at]]
        rows["source_query"] = s.source_query[contents.query_of_explanation[at]]
        at = s.towards[4][at]
    if level in (3, 4):
        rows["request"], rows["host"] = s.request[at], s.host[at]
        at = s.towards[3][at]
    if level in (2, 3, 4):
        rows["resource"] = s.resource[at]
        at = s.towards[2][at]
    if level in (1, 2, 3, 4):
        rows["stage"] = s.stage[at]
    if level == 5:
        rows["source_stage"] = s.source_stage[at]
        rows["source_query"] = s.source_query[s.query_of_source[at]]
    if level == 6:
        rows["source_query"] = s.source_query[at]
    return rows


def _amounts(contents: Contents, level: int, at: Ints) -> tuple[Floats, Floats, Floats]:
    """Return contribution, DOR and lost time of vertices; over all targets at levels 5 and 6."""
    if level <= 4:
        return (
            contents.dor.contribution[level][at],
            contents.dor.amount[level][at],
            contents.lost.amount[level][at],
        )
    pairs = contents.by_stage if level == 5 else contents.by_query
    size = contents.structure.sizes()[level]
    dor = sum_by(pairs.source, pairs.dor, size)
    lost = sum_by(pairs.source, pairs.lost_ms, size)
    return np.ones(len(at)), dor[at], lost[at]


def _kinds(contents: Contents, level: int, at: Ints) -> list[str]:
    """Return kinds: below level 4 the level's, else of blame (`own` if it has no other victim)."""
    s = contents.structure
    if level < 4:
        return [LEVELS[level].value] * len(at)
    if level == 4:
        return [BLAME_KINDS[code].value for code in s.kind[at]]
    size = s.sizes()[level]
    of_explanation = s.source if level == 5 else contents.query_of_explanation
    not_own = np.zeros(size, bool)
    not_own[of_explanation[s.kind != OWN]] = True
    real = ["query" if not_own[p] else "own" for p in at]
    return [c or kind for c, kind in zip(_causes(contents, level, at), real, strict=True)]


def _keys(contents: Contents, level: int, at: Ints) -> list[str]:
    """Return the ids of vertices without the prefix of their level."""
    s, names = contents.structure, contents.names
    if level == 0:
        return [names.query_ids[row] for row in s.targets[at]]
    if level == 1:
        return [names.stage_key(row) for row in s.stage[at]]
    if level == 2:
        stages = _keys(contents, 1, s.towards[2][at])
        return [f"{k}/{RESOURCES[c]}" for k, c in zip(stages, s.resource[at], strict=True)]
    if level == 3:
        stages = _keys(contents, 1, s.towards[2][s.towards[3][at]])
        places = zip(stages, s.request[at], s.host[at], strict=True)
        return [f"{k}/{REQUESTS[r]}@{names.host(h)}" for k, r, h in places]
    if level == 4:
        demands, sources = _keys(contents, 3, s.towards[4][at]), _keys(contents, 5, s.source[at])
        return [f"{d}<-{source}" for d, source in zip(demands, sources, strict=True)]
    causes = _causes(contents, level, at)
    if level == 5:
        return [c or names.stage_key(r) for c, r in zip(causes, s.source_stage[at], strict=True)]
    return [c or names.query_ids[r] for c, r in zip(causes, s.source_query[at], strict=True)]


def vertex_labels(contents: Contents, level: int, at: Ints) -> list[str]:
    """Return the display names of some vertices of a level, by position."""
    s, names = contents.structure, contents.names
    if level == 0:
        return [names.query_names[row] for row in s.targets[at]]
    if level == 1:
        return [names.stage_label(row) for row in s.stage[at]]
    if level == 2:
        return [RESOURCES[code].value for code in s.resource[at]]
    if level == 3:
        pairs = zip(s.request[at], s.host[at], strict=True)
        return [f"{REQUESTS[r].value} on {names.host(h)}" for r, h in pairs]
    if level == 4:
        sources, hosts = vertex_labels(contents, 5, s.source[at]), s.host[s.towards[4][at]]
        return [f"{n} on {names.host(h)}" for n, h in zip(sources, hosts, strict=True)]
    label = names.stage_label if level == 5 else names.query_names.__getitem__
    rows = s.source_stage if level == 5 else s.source_query
    pairs = zip(_causes(contents, level, at), rows[at], strict=True)
    return [SHARED_LABELS[cause] if cause else label(row) for cause, row in pairs]


def _causes(contents: Contents, level: int, at: Ints) -> list[str]:
    """Return the shared causes at positions of level 5 or 6; empty for stages and queries."""
    size = contents.structure.sizes()[level]
    return [pseudo_name(contents.structure, int(position), size) for position in at]
