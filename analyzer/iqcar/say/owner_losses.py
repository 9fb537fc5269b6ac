"""Sums the time that owners of queries lost, by whom they lost it to and what they waited for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from iqcar.base.units import resource_name
from iqcar.causes.blame.blame_tables import BLAME_KINDS, QUERY, UNATTRIBUTED
from iqcar.causes.blame.demand_weights import RESOURCES
from iqcar.diagnosis import Diagnosis
from iqcar.enums import EVIDENCES, BlameKind, Resource
from iqcar.model.queries.owners import OWNERS, owners
from iqcar.say.blamed import cause_name
from iqcar.tables import Tables

COLUMNS = ("victim", "source", "kind", "resource", "lost_ms", "share", "evidence")
"""Columns of :func:`losses_by_owner`, named as in the result's JSON."""

KIND_WORDS = {
    BlameKind.OWN: "the same query",
    BlameKind.QUERY: "other queries",
    BlameKind.REST: "",
    BlameKind.KNOWN: "",
    BlameKind.UNATTRIBUTED: "",
}
"""What tells an owner's own queries from its others."""


@dataclass(frozen=True)
class OwnerLine:
    """What one owner's queries lost to another's, or to a cause.

    Attributes
    ----------
    victim, source : str
        Owners; the source of a cause is its name.
    kind : BlameKind
        ``own``: to the same query, not to another of the owner's.
    lost_ms, share : float
        Elapsed time, and its part of what all queries lost.
    by_resource : mapping
        The same in ms by name of what was waited for, the largest first.
    evidence : str
        The weakest of its parts.
    """

    victim: str
    source: str
    kind: BlameKind
    lost_ms: float
    share: float
    by_resource: Mapping[str, float]
    evidence: str


def losses_by_owner(diagnosis: Diagnosis, by: str) -> pd.DataFrame:
    """Sum lost time by the owner of the query that lost it and of that which was in its way.

    Parameters
    ----------
    diagnosis : Diagnosis
    by : str
        As for :func:`iqcar.model.queries.owners.owners`.

    Returns
    -------
    DataFrame
        :data:`COLUMNS`, the largest loss first: victim and source (owners; what is no query has
        the cause's name in brackets), kind (:class:`~iqcar.enums.BlameKind`; ``own`` where a query
        lost time to itself), resource, lost_ms (elapsed, sums to what the queries lost), share (of
        that sum), evidence (the weakest of the row).

    Raises
    ------
    UsageError
        If nothing can be grouped so.
    """
    names, graph = owners(diagnosis.tables, by), diagnosis.graph
    owner_names, owner_of = np.unique(np.array([*names, ""], object), return_inverse=True)
    owner = owner_of[:-1].astype(np.int64)
    s = graph.structure
    demand = s.towards[4]
    if not len(demand):
        return pd.DataFrame({name: [] for name in COLUMNS})
    lost = graph.lost.amount[4]
    source = s.source_query[graph.query_of_explanation]
    # A source stage of no known query is nobody that could be named.
    kind = np.where((s.kind == QUERY) & (source < 0), UNATTRIBUTED, s.kind)
    rows = pd.DataFrame(
        {
            "victim": owner[s.targets[s.target[4]]],
            "source": np.where(source >= 0, owner[np.maximum(source, 0)], -1),
            "kind": kind,
            "resource": graph.resource_of_demand[demand],
            "lost_ms": lost,
            "evidence": diagnosis.blame.demands["evidence"].to_numpy(np.int64)[s.demand][demand],
        }
    )
    sums = (
        rows[lost > 0]
        .groupby(["victim", "source", "kind", "resource"], as_index=False)
        .agg({"lost_ms": "sum", "evidence": "min"})
        .sort_values("lost_ms", ascending=False, kind="stable", ignore_index=True)
    )
    kinds = [BLAME_KINDS[code] for code in sums["kind"].tolist()]
    resources = [RESOURCES[code] for code in sums["resource"].tolist()]
    total = float(sums["lost_ms"].sum())
    found = {
        "victim": owner_names[sums["victim"].to_numpy(np.int64)],
        "source": [
            str(owner_names[one]) if one >= 0 else f"({cause_name(kind, resource)})"
            for one, kind, resource in zip(sums["source"].tolist(), kinds, resources, strict=True)
        ],
        "kind": [str(kind) for kind in kinds],
        "resource": [str(resource) for resource in resources],
        "lost_ms": sums["lost_ms"],
        "share": sums["lost_ms"] / total if total > 0 else sums["lost_ms"],
        "evidence": [str(EVIDENCES[code]) for code in sums["evidence"].tolist()],
    }
    return pd.DataFrame(found)


def owner_lines(losses: pd.DataFrame, most: int) -> tuple[tuple[OwnerLine, ...], OwnerLine | None]:
    """Join the resources of each victim and source.

    Parameters
    ----------
    losses : DataFrame
        From :func:`losses_by_owner`.
    most : int
        Lines at most.

    Returns
    -------
    (tuple of OwnerLine, OwnerLine or None)
        The largest first; and the sum of what is beyond them, if anything.
    """
    groups = losses.groupby(["victim", "source", "kind"], sort=False)
    lines = [_line(victim, source, kind, part) for (victim, source, kind), part in groups]
    lines.sort(key=lambda one: -one.lost_ms)  # ties stay in the order of their largest part
    if len(lines) <= most:
        return tuple(lines), None
    shown = {(one.victim, one.source, str(one.kind)) for one in lines[:most]}
    keys = zip(losses["victim"], losses["source"], losses["kind"], strict=True)
    beyond = losses[[key not in shown for key in keys]]
    left = len(lines) - most
    return tuple(lines[:most]), _line("", f"{left:,} more pairs", BlameKind.REST, beyond)


def groupings_that_tell(tables: Tables, by: str = "") -> list[str]:
    """Return what is worth grouping by: what was asked for, then what tells queries apart."""
    telling = [one for one in OWNERS if one != by and len(set(owners(tables, one))) > 1]
    return [by, *telling] if by else telling


def _line(victim: str, source: str, kind: str, part: pd.DataFrame) -> OwnerLine:
    by_resource = part.groupby("resource")["lost_ms"].sum().sort_values(ascending=False)
    weakest = min(part["evidence"], key=[str(one) for one in EVIDENCES].index)
    return OwnerLine(
        victim=victim, source=source, kind=BlameKind(kind), lost_ms=float(part["lost_ms"].sum()),
        share=float(part["share"].sum()),
        by_resource={resource_name(Resource(name)): float(ms) for name, ms in by_resource.items()},
        evidence=weakest,
    )  # fmt: skip
