"""Requests × hosts of one target: where it waited, and where it lost time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from iqcar.base.limits import MOST_HOSTS, MOST_WITH_TEXT, fold
from iqcar.base.units import REQUEST_NAMES, RESOURCE_NAMES, duration, short
from iqcar.causes.blame.attribute import Blame
from iqcar.causes.graph.iqc_graph import IQCGraph
from iqcar.enums import REQUESTS, Request, Resource
from iqcar.errors import UsageError
from iqcar.model.waits.columns import MISSING, evidence_column
from iqcar.show.pictures import theme as look
from iqcar.tables import Tables
from iqcar.tables.arrays import Flags, Floats, Ints

PER_MB = 1e6
"""RATP of data is shown per MB: per byte it is a number with many zeros."""
MEASURES = ("lost_ms", "ratp")


class HeatmapCells(NamedTuple):
    """What the heatmap shows, before it is drawn.

    requests: rows
    hosts: row numbers of the hosts; −1 for a wait without one
    value: (requests, hosts) sums; 0 where nothing was waited for
    ran: (requests, hosts) bool: whether tasks of the target ran there
    missing: (requests, hosts) bool: tasks ran there, and nobody recorded this wait for any
    folded: hosts that one more column, the last, stands for; 0 if there is none
    """

    requests: list[Request]
    hosts: Ints
    value: Floats
    ran: Flags
    missing: Flags
    folded: int = 0


def heatmap_cells(
    graph: IQCGraph,
    tables: Tables,
    task_waits: pd.DataFrame,
    blame: Blame,
    target: int,
    measure: str = "lost_ms",
    *,
    stage: int | None = None,
    resource: Resource | None = None,
) -> HeatmapCells:
    """Sum deep explanations (level 3) by request and host.

    measure: ``lost_ms`` (elapsed, ms) or ``ratp`` (cumulative RATP, eq. 8: ms per slot or byte).
    stage: only this target stage (row).
    resource: only its requests.
    Raises UsageError if there is no such measure.
    Raises ValueError if the graph was not built for that target.
    """
    if measure not in MEASURES:
        raise UsageError(f"no measure is called {measure!r}", "heatmap", "take lost_ms or ratp")
    position = graph.position_of(target)
    of_stage, of_request, of_host, amount = (
        _ratp(blame, target) if measure == "ratp" else _lost(graph, position)
    )
    mine = (tables.tasks["query"] == target).to_numpy(bool)
    at = np.ones(len(of_stage), bool)
    if stage is not None:
        at &= of_stage == stage
        mine = mine & (tables.tasks["stage"] == stage).to_numpy(bool)
    requests = [r for r in REQUESTS if resource is None or r.resource is resource]
    codes = np.array([REQUESTS.index(r) for r in requests], np.int64)
    at &= np.isin(of_request, codes)
    of_request, of_host = of_request[at], of_host[at]
    task_host = tables.tasks["host"].to_numpy(np.int64)[mine]
    hosts = np.unique(np.concatenate([of_host, task_host])).astype(np.int64)
    shape = (len(requests), len(hosts))
    value = np.zeros(shape)
    place = (np.searchsorted(codes, of_request), np.searchsorted(hosts, of_host))
    np.add.at(value, place, amount[at])
    column = np.searchsorted(hosts, task_host)
    ran = np.zeros(shape, bool)
    ran[:, column] = True
    known = np.zeros(shape, bool)
    for row, request in enumerate(requests):
        evidence = task_waits[evidence_column(request)].to_numpy()[mine]
        known[row, column[evidence != MISSING]] = True
    return HeatmapCells(requests, hosts, value, ran, ran & ~known & (value == 0))


def heatmap(
    graph: IQCGraph,
    tables: Tables,
    task_waits: pd.DataFrame,
    blame: Blame,
    target: int,
    measure: str = "lost_ms",
    *,
    stage: int | None = None,
    resource: Resource | None = None,
    dark: bool = False,
) -> look.Figure:
    """Draw :func:`heatmap_cells`; what nobody recorded is hatched.

    RATP of slots and of data have different units, so its colours compare hosts within a row.
    """
    cells = heatmap_cells(
        graph, tables, task_waits, blame, target, measure=measure, stage=stage, resource=resource
    )
    names = graph.names
    name = look.label(names.query_names[target])
    name += f", stage {names.stage_numbers[stage]}" if stage is not None else ""
    if cells.value.size == 0 or not (cells.value.any() or cells.missing.any()):
        return look.nothing(f"{name} waited for nothing that could be measured.", dark=dark)
    cells = _fold(cells, measure)
    called = [names.host(int(row)) for row in cells.hosts]
    more = [f"{cells.folded} more hosts"] * bool(cells.folded)
    columns = look.distinct(called, [""] * len(called), 24) + more
    full = [look.safe(short(text, 120)) for text in called] + more
    rows = [f"{RESOURCE_NAMES[r.resource]}: {REQUEST_NAMES[r]}" for r in cells.requests]
    hovers = [
        [f"<b>{row}</b> on {host}<br>{_sentence(cells, i, j, measure)}"
         for j, host in enumerate(full)]
        for i, row in enumerate(rows)
    ]  # fmt: skip
    title = (
        f"Where {name} lost time, waiting for what"
        if measure == "lost_ms"
        else f"How long {name} waited per unit of work: ms per slot offered or MB moved"
    )
    return look.figure(
        [_colours(cells, hovers, measure), *_gaps(cells, hovers)],
        title,
        dark=dark,
        height=look.FRAME_PX + look.ROW_PX * len(rows) + 40,
        bargap=0,
        showlegend=bool(cells.missing.any()),
        legend={"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 1, "xanchor": "right"},
        xaxis=look.names_axis(columns),
        yaxis=look.names_axis(rows, down=True),
    )


def _fold(cells: HeatmapCells, measure: str) -> HeatmapCells:
    """Keep the hosts with the largest sums in the order of their names' rows; sum the others."""
    value = cells.value * (_per_unit(cells.requests)[:, None] if measure == "ratp" else 1.0)
    # Requests are compared by their rows' largest: units differ for RATP.
    most = value.max(axis=1, keepdims=True)
    weight = (value / np.where(most > 0, most, 1.0)).sum(axis=0)
    kept, rest = map(np.sort, fold(weight, MOST_HOSTS))
    if not len(rest):
        return cells

    def joined(values: NDArray[Any], how: Callable[..., Any]) -> NDArray[Any]:
        return np.column_stack([values[:, kept], how(values[:, rest], axis=1)])

    ran, missing = joined(cells.ran, np.any), joined(cells.missing, np.any)
    total = joined(cells.value, np.sum)
    missing[:, -1] &= total[:, -1] == 0
    return HeatmapCells(cells.requests, cells.hosts[kept], total, ran, missing, folded=len(rest))


def _lost(graph: IQCGraph, position: int) -> tuple[Ints, Ints, Ints, Floats]:
    """Stage, request, host and time lost of each deep explanation."""
    s = graph.structure
    at = np.flatnonzero(s.target[3] == position)
    stage = graph.stage_of_resource[s.towards[3][at]]
    return stage, s.request[at], s.host[at], graph.lost.amount[3][at]


def _ratp(blame: Blame, target: int) -> tuple[Ints, Ints, Ints, Floats]:
    """RATP of the target's demands; the graph holds only demands that lost time."""
    mine = blame.demands[(blame.demands["query"] == target).to_numpy(bool)]
    stage, request, host = (mine[c].to_numpy(np.int64) for c in ("stage", "request", "host"))
    return stage, request, host, np.nan_to_num(mine["ratp"].to_numpy(np.float64))


def _per_unit(requests: list[Request]) -> Floats:
    return np.array([1.0 if r is Request.SLOT_WAIT else PER_MB for r in requests])


def _colours(cells: HeatmapCells, hovers: list[list[str]], measure: str) -> dict[str, Any]:
    shade = cells.value.astype(np.float64).copy()
    if measure == "ratp":
        most = shade.max(axis=1, keepdims=True)
        shade = shade / np.where(most > 0, most, 1.0)
    shade[cells.missing | ~(cells.ran | (cells.value > 0))] = np.nan
    empty = not np.isfinite(shade).any()
    rows, columns = shade.shape
    return {
        "type": "heatmap",
        "z": [[None if np.isnan(v) else float(v) for v in row] for row in shade],
        "zmin": 0,
        "zmax": 1.0 if empty else float(np.nanmax(shade)) or 1.0,
        "customdata": cells.value.tolist(),
        "text": [[_cell(cells, i, j, measure) for j in range(columns)] for i in range(rows)],
        "texttemplate": "%{text}" if columns <= MOST_WITH_TEXT else "",
        "hovertext": hovers,
        "name": "",
    }


def _gaps(cells: HeatmapCells, hovers: list[list[str]]) -> list[dict[str, Any]]:
    """Hatch the cells that nobody recorded."""
    at = np.argwhere(cells.missing)
    if len(at) == 0:
        return []
    return [
        {
            "type": "bar", "name": "not recorded", "marker": look.HATCHED, "showlegend": True,
            "x": at[:, 1].tolist(), "y": [0.92] * len(at), "base": (at[:, 0] - 0.46).tolist(),
            "width": 0.97, "hoverinfo": "text", "hovertext": [hovers[i][j] for i, j in at],
        }
    ]  # fmt: skip


def _cell(cells: HeatmapCells, i: int, j: int, measure: str) -> str:
    value = float(cells.value[i, j])
    if cells.missing[i, j] or not (cells.ran[i, j] or value > 0):
        return ""
    if value == 0:
        return "0"
    if measure == "lost_ms":
        return duration(value)
    per_unit = value * float(_per_unit([cells.requests[i]])[0])
    return f"{per_unit:,.0f}" if per_unit >= 100 else f"{per_unit:.3g}"


def _sentence(cells: HeatmapCells, i: int, j: int, measure: str) -> str:
    value = float(cells.value[i, j])
    if cells.missing[i, j]:
        return "not recorded: unknown, not zero"
    if not (cells.ran[i, j] or value > 0):
        return "none of its tasks ran there"
    if measure == "lost_ms":
        return f"{duration(value)} of its elapsed time was lost"
    unit = "slot offered" if cells.requests[i] is Request.SLOT_WAIT else "MB"
    return f"{_cell(cells, i, j, measure)} ms per {unit}, summed over tasks"
