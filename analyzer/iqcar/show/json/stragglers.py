"""Stragglers as JSON: in the result of ``iqcar analyze``, and alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from iqcar.causes.stragglers.straggler_result import (
    Labels,
    Stragglers,
    by_cause,
    by_group,
)
from iqcar.rules.vocabulary.topics import straggler_cause, what_helps
from iqcar.show.json.plain import plain

WORST = 100
"""Stragglers in the result of a diagnosis, the most delayed ones; ``iqcar stragglers`` has all."""


def stragglers_to_dict(found: Stragglers, most: int | None = WORST) -> dict[str, Any]:
    """Lay stragglers out as JSON; numbers nobody knows become None.

    Parameters
    ----------
    found : Stragglers
    most : int, optional
        How many stragglers to list; all by default None.
    """
    labels = found.labels
    shown = found.stragglers if most is None else found.stragglers.head(most)
    return {
        "settings": found.settings.to_dict(),
        "compared_tasks": found.tasks,
        "count": len(found.stragglers),
        "explained": int((found.stragglers["causes"] > 0).sum()),
        "delay_ms": float(found.stragglers["delay_ms"].sum()),
        "by_cause": [_cause_count(row) for row in by_cause(found).to_dict("records")],
        "by_stage": _groups(found, "stage", labels.stage),
        "by_query": _groups(found, "query", labels.query_id),
        "by_host": _groups(found, "host", labels.host),
        "worst": _worst(found, shown),
        "advice": _advice(found),
        "doubts": list(found.doubts),
    }


def _cause_count(row: dict[Any, Any]) -> dict[str, Any]:
    key = row["cause"]
    return {
        "cause": key or None,
        "name": straggler_cause(key).name,
        "stragglers": int(row["stragglers"]),
        "delay_ms": float(row["delay_ms"]),
    }


def _groups(found: Stragglers, group: str, name: Callable[[int], str]) -> list[dict[str, Any]]:
    frame = by_group(found, group)
    apps = found.compared_stages.drop_duplicates("stage").set_index("stage")["app"]
    rows = []
    for row in frame[(frame[group] >= 0).to_numpy()].to_dict("records"):
        of_app = {"app": found.labels.app(int(apps[row["stage"]]))} if group == "stage" else {}
        rows.append(
            {
                **of_app,
                group: name(int(row[group])),
                "tasks": int(row["tasks"]),
                "stragglers": int(row["stragglers"]),
                "delay_ms": float(row["delay_ms"]),
                "causes": row["causes"],
            }
        )
    return rows


def _worst(found: Stragglers, shown: pd.DataFrame) -> list[dict[str, Any]]:
    labels = found.labels
    causes: dict[int, list[dict[str, Any]]] = {}
    mine = found.causes[(found.causes["straggler"] < len(shown)).to_numpy()]
    sources = _sources(found.sources[found.sources["cause"].isin(mine.index)], labels)
    for number, row in zip(mine.index.tolist(), mine.to_dict("records"), strict=True):
        straggler = int(row.pop("straggler"))
        cells = {key: plain(value) for key, value in row.items()}
        causes.setdefault(straggler, []).append({**cells, "blamed": sources.get(number, [])})
    return [
        {
            "app": labels.app(one["app"]),
            "stage": labels.stage(one["stage"]),
            "query_id": labels.query_id(one["query"]) or None,
            "host": labels.host(one["host"]) or None,
            "task": labels.task(one["task"], one["task_id"]),
            "launch_ms": plain(one["launch_ms"]),
            "duration_ms": one["duration_ms"],
            "median_ms": one["median_ms"],
            "delay_ms": one["delay_ms"],
            "causes": causes.get(row, []),
        }
        for row, one in enumerate(shown.to_dict("records"))
    ]


def _sources(sources: pd.DataFrame, labels: Labels) -> dict[int, list[dict[str, Any]]]:
    found: dict[int, list[dict[str, Any]]] = {}
    for row in sources.to_dict("records"):
        query = row["query"]
        found.setdefault(int(row["cause"]), []).append(
            {
                "kind": row["kind"],
                "query_id": labels.query_id(query) or None,
                "name": labels.query(query) or None,
                "share": row["share"],
            }
        )
    return found


def _advice(found: Stragglers) -> list[dict[str, Any]]:
    """What to do about each cause; marked as advice, because no pool is made from it."""
    rows = []
    for row in by_cause(found).to_dict("records"):
        known = straggler_cause(row["cause"]) if row["cause"] else None
        if known is not None and (helps := what_helps(row["cause"], found)):
            what = {"name": known.name, "sentence": known.sentence, "advice": helps}
            rows.append({"kind": "advice", "cause": row["cause"], **what})
    return rows
