"""Ranks the queries that changed by what they add to a run, with their stages that changed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from iqcar.comparison.effects.effects import LEAST_EFFECT_MS
from iqcar.comparison.sides.comparison_tables import CHANGES
from iqcar.enums import ChangeKind, ChangeVerdict
from iqcar.tables import NONE, texts
from iqcar.tables.arrays import share_of


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
    rows: list[tuple[int, int, str, int]] = []
    for rank, (_, category, kind, stages) in enumerate(sorted(found), 1):
        query = len(rows)
        rows.append((rank, category, kind, NONE))
        rows += [(rank, stage, "", query) for stage in stages]
    columns = list(zip(*rows, strict=True)) or [()] * 4
    at = np.array(columns[1], np.int64)
    of_effect = ("before_ms", "after_ms", "contribution_ms", "low_ms", "high_ms", "runs_before")
    names = [*of_effect, "runs_after", "q_value", "evidence"]
    contribution = np.abs(effect["contribution_ms"].to_numpy(np.float64))
    everything = float(contribution[categories["kind"].to_numpy() == "query"].sum())
    return CHANGES.frame(
        {
            **dict(zip(("rank", "category", "kind", "parent"), columns, strict=True)),
            **{name: effect[name].to_numpy()[at] for name in names},
            "share": share_of(contribution[at], np.full(len(at), everything)),
        }
    )


def _found(
    categories: pd.DataFrame, effect: pd.DataFrame, new_graphs: Mapping[int, object]
) -> list[tuple[float, int, str, list[int]]]:
    """Queries that changed: negative size, category, kind and stages, the largest first."""
    kind, verdict = texts(categories, "kind"), texts(effect, "verdict")
    query_of = categories["query_category"].tolist()
    contribution: list[float] = effect["contribution_ms"].tolist()
    stages: dict[int, list[int]] = {}
    for category, worth in enumerate(_worth(effect, query_of, verdict, new_graphs)):
        if kind[category] != "query" and worth:
            stages.setdefault(query_of[category], []).append(category)
    changed = str(ChangeVerdict.CHANGED)
    found = []
    for category in np.flatnonzero(np.array(kind, object) == "query").tolist():
        inside = sorted(stages.get(category, ()), key=lambda stage: -abs(contribution[stage]))
        size, what = abs(contribution[category]), ""
        if verdict[category] == "":
            only_after = effect["runs_before"].iloc[category] == 0
            what, inside = str(ChangeKind.ADDED if only_after else ChangeKind.REMOVED), []
        elif category in new_graphs:
            what = str(ChangeKind.STRUCTURE)
        elif verdict[category] != changed:
            if not any(verdict[stage] == changed for stage in inside):
                continue
            # The query's own time varies too much to tell: its stages say how much.
            size = abs(sum(contribution[stage] for stage in inside))
        found.append((-size, category, what, inside))
    return found


def _worth(
    effect: pd.DataFrame, query_of: list[int], verdict: list[str], new_graphs: Mapping[int, object]
) -> list[bool]:
    """Tell which stages are listed: those that changed, or came or went with the stage graph."""
    before, after = (effect[name].to_numpy(np.float64) for name in ("before_ms", "after_ms"))
    large = np.abs(effect["contribution_ms"].to_numpy(np.float64)) >= LEAST_EFFECT_MS
    one_side = (large & ((before == 0) | (after == 0))).tolist()
    changed = str(ChangeVerdict.CHANGED)
    return [
        said == changed or (alone and query in new_graphs and verdict[query] != "")
        for said, alone, query in zip(verdict, one_side, query_of, strict=True)
    ]
