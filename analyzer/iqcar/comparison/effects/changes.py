"""Rank the queries that changed by what they add to a run, with the stages that changed in each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from iqcar.comparison.effects.effects import LEAST_EFFECT_MS
from iqcar.comparison.sides.comparison_tables import CHANGES
from iqcar.enums import ChangeKind, Verdict
from iqcar.tables import NONE, texts
from iqcar.tables.arrays import share_of


class _Row(NamedTuple):
    category: int
    kind: str
    stages: tuple[int, ...]
    size: float


def rank_changes(
    categories: pd.DataFrame,
    effect: pd.DataFrame,
    new_graphs: Mapping[int, object] | None = None,
) -> pd.DataFrame:
    """List what changed: queries by contribution, each followed by its stages.

    ``new_graphs``: query categories whose stage graph changed. Returns ``CHANGES``: a query is
    listed if it or a stage of it changed, if its stage graph did, or if it ran on one side only.
    `kind` is empty where :mod:`iqcar.comparison.causes` has to tell it.
    """
    found = _found(categories, effect, new_graphs or {})
    found.sort(key=lambda row: (-row.size, row.category))
    contribution = effect["contribution_ms"].to_numpy(np.float64)
    is_query = categories["kind"].to_numpy() == "query"
    everything = float(np.abs(contribution[is_query]).sum())
    rank: list[int] = []
    category: list[int] = []
    kind: list[str] = []
    parent: list[int] = []
    for number, row in enumerate(found, 1):
        query = len(category)
        for of, what, above in (
            (row.category, row.kind, NONE),
            *((stage, "", query) for stage in row.stages),
        ):
            rank.append(number)
            category.append(of)
            kind.append(what)
            parent.append(above)
    at = np.array(category, np.int64)
    taken = {
        name: effect[name].to_numpy()[at]
        for name in (
            *("before_ms", "after_ms", "contribution_ms", "low_ms", "high_ms"),
            *("runs_before", "runs_after", "q_value", "evidence"),
        )
    }
    size = np.abs(contribution[at])
    return CHANGES.frame(
        {
            "rank": rank,
            "category": at,
            "kind": kind,
            **taken,
            "share": share_of(size, np.full(len(size), everything)),
            "parent": parent,
        }
    )


def _found(
    categories: pd.DataFrame,
    effect: pd.DataFrame,
    new_graphs: Mapping[int, object],
) -> list[_Row]:
    kind = texts(categories, "kind")
    of = categories["query_category"].tolist()
    verdict = texts(effect, "verdict")
    contribution: list[float] = effect["contribution_ms"].tolist()
    stages: dict[int, list[int]] = {}
    worth = _worth(effect, of, verdict, new_graphs)
    for category, (what, query) in enumerate(zip(kind, of, strict=True)):
        if what != "query" and worth[category]:
            stages.setdefault(query, []).append(category)
    changed = str(Verdict.CHANGED)
    found = []
    for category in np.flatnonzero(np.array(kind, object) == "query").tolist():
        inside = tuple(
            sorted(stages.get(category, ()), key=lambda stage: -abs(contribution[stage]))
        )
        if verdict[category] == "":
            only_after = effect["runs_before"].iloc[category] == 0
            whole = ChangeKind.ADDED if only_after else ChangeKind.REMOVED
            found.append(_Row(category, str(whole), (), abs(contribution[category])))
        elif category in new_graphs:
            structure = str(ChangeKind.STRUCTURE)
            found.append(_Row(category, structure, inside, abs(contribution[category])))
        elif verdict[category] == changed:
            found.append(_Row(category, "", inside, abs(contribution[category])))
        elif any(verdict[stage] == changed for stage in inside):
            # The query's own time varies too much to tell: its stages say how much.
            size = abs(sum(contribution[stage] for stage in inside))
            found.append(_Row(category, "", inside, size))
    return found


def _worth(
    effect: pd.DataFrame, of: list[int], verdict: list[str], new_graphs: Mapping[int, object]
) -> list[bool]:
    """Tell which stages are listed: those that changed, or came or went with the stage graph."""
    before, after = (effect[name].to_numpy(np.float64) for name in ("before_ms", "after_ms"))
    large = np.abs(effect["contribution_ms"].to_numpy(np.float64)) >= LEAST_EFFECT_MS
    one_side = (large & ((before == 0) | (after == 0))).tolist()
    changed = str(Verdict.CHANGED)
    return [
        said == changed or (alone and query in new_graphs and verdict[query] != "")
        for said, alone, query in zip(verdict, one_side, of, strict=True)
    ]
