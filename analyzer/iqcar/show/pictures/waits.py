"""What a query's tasks waited for, stage by stage."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from iqcar.base.limits import LEAST_MISSING, MOST_STAGES, fold
from iqcar.base.units import RESOURCE_NAMES, duration, short
from iqcar.enums import Resource
from iqcar.model.waits.columns import MISSING, evidence_column, requests_of, wait_column
from iqcar.model.waits.measure import TELLING
from iqcar.show.pictures import theme as look
from iqcar.show.pictures.palette import RESOURCE_COLOURS
from iqcar.tables import Tables, texts
from iqcar.tables.arrays import Flags, Floats, Ints

CRITICAL = "◆"
"""Marks stages on the critical path."""
RESOURCES: tuple[Resource, ...] = tuple(Resource)
BARS = 0.72
"""Share of the picture that bars take where something was not recorded."""


class StageWaits(NamedTuple):
    """Waits of one query's stages.

    stages: (stages,) rows, in the order of submission
    wait_ms: (stages, resources) task time waited; NaN where it is known for no task
    missing: (stages, resources) share of the stage's task time whose wait is not known, 0 to 1
    critical: (stages,) bool
    """

    stages: Ints
    wait_ms: Floats
    missing: Floats
    critical: Flags


def stage_waits(tables: Tables, task_waits: pd.DataFrame, target: int) -> StageWaits:
    """Sum the waits of a query's tasks by stage and resource.

    task_waits: DataFrame of :data:`iqcar.model.waits.columns.WAITS`
    target: row of the query.
    Sums over stages are those of :func:`iqcar.model.waits.measure.sum_query_waits`, but
    for tasks of no known stage.
    """
    of_stage = tables.tasks["stage"].to_numpy(np.int64)
    mine = (tables.tasks["query"] == target).to_numpy(bool) & (of_stage >= 0)
    stages, of = np.unique(of_stage[mine], return_inverse=True)
    size = len(stages)
    life_of_task = task_waits["duration_ms"].to_numpy(np.float64)[mine]
    life = np.bincount(of, life_of_task, minlength=size)
    wait = np.full((size, len(RESOURCES)), np.nan)
    missing = np.zeros((size, len(RESOURCES)))
    for column, resource in enumerate(RESOURCES):
        total, some = np.zeros(size), np.zeros(size, bool)
        unknown = np.zeros(len(of), bool)
        for request in requests_of(resource):
            value = task_waits[wait_column(request)].to_numpy(np.float64)[mine]
            known = task_waits[evidence_column(request)].to_numpy()[mine] != MISSING
            total += np.bincount(of[known], value[known], minlength=size)
            some[of[known]] = True
            if request in TELLING[resource]:
                unknown |= ~known
        wait[some, column] = total[some]
        unknown_ms = np.bincount(of[unknown], life_of_task[unknown], minlength=size)
        share = np.divide(unknown_ms, life, out=np.zeros(size), where=life > 0)
        missing[:, column] = np.where(some, share, 1.0)
    submitted = tables.stages["submission_ms"].to_numpy(np.float64)[stages]
    order = np.lexsort((stages, submitted))
    critical = tables.stages["critical"].to_numpy(bool)[stages]
    return StageWaits(stages[order], wait[order], missing[order], critical[order])


def waits(
    tables: Tables, task_waits: pd.DataFrame, target: int, *, dark: bool = False
) -> look.Figure:
    """Draw a query's waits by stage and resource, and what part of them nobody recorded.

    Stages on the critical path are marked. On the right, hatching says for what share of a
    stage's task time a wait is not known.
    """
    found = stage_waits(tables, task_waits, target)
    name = look.label(texts(tables.queries, "name")[target])
    if len(found.stages) == 0:
        return look.nothing(f"{name} ran no task.", dark=dark)
    shown = _fold(found)
    ticks, full = _labels(tables, found, shown)
    gaps = bool((shown.missing > LEAST_MISSING).any())
    total = float(np.nansum(shown.wait_ms))
    axes: dict[str, Any] = {"xaxis": {"title": {"text": "s of task time"}, "rangemode": "tozero"}}
    if gaps:
        axes["xaxis"]["domain"] = [0.0, BARS]
        axes["xaxis2"] = {
            **look.names_axis([RESOURCE_NAMES[r] for r in RESOURCES]),
            "domain": [BARS + 0.03, 1.0], "anchor": "y", "tickangle": 0,
            "title": {"text": "not recorded"}, "tickfont": {"size": 10},
        }  # fmt: skip
    return look.figure(
        [*_bars(shown, full), *([_unknown(shown, full)] if gaps else ())],
        f"What the tasks of {name} waited for, {duration(total)} of task time"
        + (f"  ({CRITICAL} on the critical path)" if shown.critical.any() else ""),
        dark=dark,
        height=look.FRAME_PX + 20 + look.ROW_PX * max(len(ticks), 3),
        barmode="overlay",
        bargap=0.3,
        yaxis=look.names_axis(ticks, down=True),
        **axes,
        **look.legend_above([RESOURCE_NAMES[r] for r in RESOURCES]),
    )


class _Shown(NamedTuple):
    """Rows of the figure: positions in StageWaits, and the sums of what was folded."""

    at: list[int]
    wait_ms: Floats
    missing: Floats
    critical: Flags
    folded: int


def _fold(found: StageWaits) -> _Shown:
    kept, rest = map(np.sort, fold(np.nansum(found.wait_ms, axis=1), MOST_STAGES))
    if not len(rest):
        return _Shown(kept.tolist(), found.wait_ms, found.missing, found.critical, 0)
    unknown = np.isnan(found.wait_ms[rest]).all(axis=0)
    sums = np.where(unknown, np.nan, np.nansum(found.wait_ms[rest], axis=0))
    return _Shown(
        kept.tolist(),
        np.vstack([found.wait_ms[kept], sums]),
        # Of several stages the worst known one is shown: a mean would hide it.
        np.vstack([found.missing[kept], found.missing[rest].max(axis=0)]),
        np.append(found.critical[kept], False),
        len(rest),
    )


def _labels(tables: Tables, found: StageWaits, shown: _Shown) -> tuple[list[str], list[str]]:
    """Ticks, and full names for hover texts."""
    ids = tables.stages["stage_id"].to_numpy(np.int64)
    attempts = tables.stages["attempt"].to_numpy(np.int64)
    names = texts(tables.stages, "name")
    ticks, full = [], []
    for at in shown.at:
        row = int(found.stages[at])
        number = f"stage {ids[row]}.{attempts[row]}"
        mark = f"{CRITICAL} " if found.critical[at] else ""
        ticks.append(f"{mark}{look.label(f'{number} {names[row]}'.strip(), 30)}")
        path = ", on the critical path" if found.critical[at] else ""
        full.append(f"<b>{number}</b>{path}<br>{look.safe(short(names[row], 90))}")
    if shown.folded:
        ticks.append(f"{shown.folded} other stages")
        full.append(f"<b>{shown.folded} other stages</b>")
    return ticks, full


def _bars(shown: _Shown, full: list[str]) -> list[dict[str, Any]]:
    rows = list(range(len(full)))
    base = np.zeros(len(full))
    traces = []
    for column, resource in enumerate(RESOURCES):
        value = np.nan_to_num(shown.wait_ms[:, column]) / 1e3
        if np.isnan(shown.wait_ms[:, column]).all():
            continue
        traces.append(
            {
                "type": "bar", "orientation": "h", "name": RESOURCE_NAMES[resource],
                "marker": {"color": RESOURCE_COLOURS[resource]},
                "y": rows, "x": value.tolist(), "base": base.tolist(), "hoverinfo": "text",
                "hovertext": [_fact(full[i], shown, i, column) for i in rows],
            }
        )  # fmt: skip
        base = base + value
    return traces


def _unknown(shown: _Shown, full: list[str]) -> dict[str, Any]:
    at = np.argwhere(shown.missing > LEAST_MISSING)
    return {
        "type": "bar", "orientation": "h", "name": "not recorded", "marker": look.HATCHED,
        "xaxis": "x2", "y": at[:, 0].tolist(), "base": (at[:, 1] - 0.47).tolist(),
        "x": (0.94 * shown.missing[at[:, 0], at[:, 1]]).tolist(), "hoverinfo": "text",
        "hovertext": [_fact(full[i], shown, i, c) for i, c in at],
    }  # fmt: skip


def _fact(full: str, shown: _Shown, row: int, column: int) -> str:
    name = RESOURCE_NAMES[RESOURCES[column]]
    value, missing = float(shown.wait_ms[row, column]), float(shown.missing[row, column])
    waited = f"waited {duration(value)} for {name}"
    if np.isnan(value):
        return f"{full}<br>waits for {name} were not recorded: unknown, not zero"
    if missing > LEAST_MISSING:
        return f"{full}<br>{waited}; not recorded for {look.percent_text(missing)} of its task time"
    return f"{full}<br>{waited}"
