"""Requests × hosts of one target: where it waited, and where it lost time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

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
from iqcar.show.pictures.labels import distinct, label, safe
from iqcar.show.pictures.theme import FRAME_PX, ROW_PX, figure, hatched, nothing, scale
from iqcar.tables import Tables
from iqcar.tables.arrays import Flags, Floats, Ints

if TYPE_CHECKING:
    import plotly.graph_objects as go

PER_MB = 1e6
"""RATP of data is shown per MB: per byte it is a number with many zeros."""
MEASURES = {
    "lost_ms": "elapsed time lost",
    "ratp": "RATP: waiting per unit of data",
}


class Cells(NamedTuple):
    """What the heatmap shows, before it is drawn.

    Attributes
    ----------
    requests : rows
    hosts : row numbers of the hosts; −1 for a wait without one
    value : (requests, hosts) sums; 0 where nothing was waited for
    ran : (requests, hosts) bool: whether tasks of the target ran there
    missing : (requests, hosts) bool: tasks ran there, and nobody recorded this wait for any
    """

    requests: list[Request]
    hosts: Ints
    value: Floats
    ran: Flags
    missing: Flags


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
) -> Cells:
    """Sum deep explanations (level 3) by request and host.

    Parameters
    ----------
    measure : str
        ``lost_ms`` (elapsed, ms) or ``ratp`` (cumulative RATP, eq. 8: ms per slot or byte).
    stage : int, optional
        Only this target stage (row).
    resource : Resource, optional
        Only its requests.

    Raises
    ------
    UsageError
        If there is no such measure.
    ValueError
        If the graph was not built for that target.
    """
    if measure not in MEASURES:
        raise UsageError(f"no measure is called {measure!r}", "heatmap", "take lost_ms or ratp")
    position = graph.position_of(target)
    found = _ratp(blame, target) if measure == "ratp" else _lost(graph, position)
    mine = (tables.tasks["query"] == target).to_numpy(bool)
    at = np.ones(len(found.stage), bool)
    if stage is not None:
        at &= found.stage == stage
        mine = mine & (tables.tasks["stage"] == stage).to_numpy(bool)
    requests = [r for r in REQUESTS if resource is None or r.resource is resource]
    codes = np.array([REQUESTS.index(r) for r in requests], np.int64)
    at &= np.isin(found.request, codes)
    of_request, of_host = found.request[at], found.host[at]
    task_host = tables.tasks["host"].to_numpy(np.int64)[mine]
    hosts = np.unique(np.concatenate([of_host, task_host])).astype(np.int64)
    shape = (len(requests), len(hosts))
    value = np.zeros(shape)
    place = (np.searchsorted(codes, of_request), np.searchsorted(hosts, of_host))
    np.add.at(value, place, found.amount[at])
    column = np.searchsorted(hosts, task_host)
    ran = np.zeros(shape, bool)
    ran[:, column] = True
    known = np.zeros(shape, bool)
    for row, request in enumerate(requests):
        evidence = task_waits[evidence_column(request)].to_numpy()[mine]
        known[row, column[evidence != MISSING]] = True
    return Cells(requests, hosts, value, ran, ran & ~known & (value == 0))


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
) -> go.Figure:
    """Draw :func:`heatmap_cells`; what nobody recorded is hatched.

    RATP of slots and of data have different units, so its colours compare hosts within a row.
    """
    cells = heatmap_cells(
        graph, tables, task_waits, blame, target, measure, stage=stage, resource=resource
    )
    names = graph.names
    name = label(names.query_names[target])
    of_stage = f", stage {names.stage_numbers[stage]}" if stage is not None else ""
    if cells.value.size == 0 or not (cells.value.any() or cells.missing.any()):
        return nothing(f"{name}{of_stage} waited for nothing that could be measured.", dark=dark)
    columns = _fold(cells, measure)
    called = [names.host(int(row)) for row in columns.hosts]
    ticks = distinct(called, [""] * len(called), 24)
    full = [safe(short(text, 120)) for text in called]
    if columns.folded:
        ticks.append(f"{columns.folded} more hosts")
        full.append(f"{columns.folded} more hosts")
    rows = [f"{RESOURCE_NAMES[r.resource]}: {REQUEST_NAMES[r]}" for r in cells.requests]
    texts = [[_cell(columns, i, j, measure) for j in range(len(ticks))] for i in range(len(rows))]
    hovers = [
        [f"<b>{row}</b> on {full[j]}<br>{_sentence(columns, i, j, measure)}"
         for j in range(len(ticks))]
        for i, row in enumerate(rows)
    ]  # fmt: skip
    made = figure(
        [_colours(columns, texts, hovers, measure, dark), *_gaps(columns, hovers, dark)],
        _title(name, of_stage, measure),
        dark=dark,
        height=FRAME_PX + ROW_PX * len(rows) + 40,
        bargap=0,
        showlegend=bool(columns.missing.any()),
        legend={"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 1, "xanchor": "right"},
    )
    plain = {"showgrid": False, "zeroline": False, "tickmode": "array"}
    made.update_xaxes(
        tickvals=list(range(len(ticks))), ticktext=ticks, range=[-0.5, len(ticks) - 0.5], **plain
    )
    made.update_yaxes(
        tickvals=list(range(len(rows))), ticktext=rows, range=[len(rows) - 0.5, -0.5], **plain
    )
    return made


class _Shown(NamedTuple):
    requests: list[Request]
    hosts: Ints
    value: Floats
    ran: Flags
    missing: Flags
    folded: int


def _fold(cells: Cells, measure: str) -> _Shown:
    """Keep the hosts with the largest sums in the order of their names' rows; sum the others."""
    value = cells.value * (_per_unit(cells.requests)[:, None] if measure == "ratp" else 1.0)
    # Requests are compared by their rows' largest: units differ for RATP.
    most = value.max(axis=1, keepdims=True)
    weight = (value / np.where(most > 0, most, 1.0)).sum(axis=0)
    kept, rest = map(np.sort, fold(weight, MOST_HOSTS))
    if not len(rest):
        return _Shown(*cells, 0)

    def joined(values: NDArray[Any], how: Any) -> NDArray[Any]:
        return np.column_stack([values[:, kept], how(values[:, rest], axis=1)])

    ran, missing = joined(cells.ran, np.any), joined(cells.missing, np.any)
    total = joined(cells.value, np.sum)
    missing[:, -1] &= total[:, -1] == 0
    return _Shown(cells.requests, cells.hosts[kept], total, ran, missing, len(rest))


class _Amounts(NamedTuple):
    """An amount per stage, request and host."""

    stage: Ints
    request: Ints
    host: Ints
    amount: Floats


def _lost(graph: IQCGraph, position: int) -> _Amounts:
    s = graph.structure
    at = np.flatnonzero(s.target[3] == position)
    stage = graph.stage_of_resource[s.towards[3][at]]
    return _Amounts(stage, s.request[at], s.host[at], graph.lost.amount[3][at])


def _ratp(blame: Blame, target: int) -> _Amounts:
    """RATP of the target's demands; the graph holds only demands that lost time."""
    mine = blame.demands[(blame.demands["query"] == target).to_numpy(bool)]
    stage, request, host = (mine[c].to_numpy(np.int64) for c in ("stage", "request", "host"))
    return _Amounts(stage, request, host, np.nan_to_num(mine["ratp"].to_numpy(np.float64)))


def _per_unit(requests: list[Request]) -> Floats:
    return np.array([1.0 if r is Request.SLOT_WAIT else PER_MB for r in requests])


def _colours(
    cells: _Shown, texts: list[list[str]], hovers: list[list[str]], measure: str, dark: bool
) -> Any:
    import plotly.graph_objects as go

    shade = cells.value.astype(np.float64).copy()
    if measure == "ratp":
        most = shade.max(axis=1, keepdims=True)
        shade = shade / np.where(most > 0, most, 1.0)
    shade[cells.missing | ~(cells.ran | (cells.value > 0))] = np.nan
    empty = not np.isfinite(shade).any()
    return go.Heatmap(
        z=[[None if np.isnan(v) else float(v) for v in row] for row in shade],
        zmin=0,
        zmax=1.0 if empty else float(np.nanmax(shade)) or 1.0,
        colorscale=scale(dark),
        customdata=cells.value.tolist(),
        text=texts,
        texttemplate="%{text}" if len(texts[0]) <= MOST_WITH_TEXT else "",
        hoverongaps=False,
        hovertext=hovers,
        hoverinfo="text",
        xgap=2,
        ygap=2,
        showscale=False,
        name="",
    )


def _gaps(cells: _Shown, hovers: list[list[str]], dark: bool) -> list[Any]:
    """Hatch the cells that nobody recorded."""
    import plotly.graph_objects as go

    at = np.argwhere(cells.missing)
    if len(at) == 0:
        return []
    return [
        go.Bar(
            x=at[:, 1].tolist(),
            y=[0.92] * len(at),
            base=(at[:, 0] - 0.46).tolist(),
            width=0.97,
            marker=hatched(dark),
            hovertext=[hovers[i][j] for i, j in at],
            hoverinfo="text",
            name="not recorded",
            showlegend=True,
        )
    ]


def _cell(cells: _Shown, i: int, j: int, measure: str) -> str:
    value = float(cells.value[i, j])
    if cells.missing[i, j] or not (cells.ran[i, j] or value > 0):
        return ""
    if value == 0:
        return "0"
    if measure == "lost_ms":
        return duration(value)
    per_unit = value * float(_per_unit([cells.requests[i]])[0])
    return f"{per_unit:,.0f}" if per_unit >= 100 else f"{per_unit:.3g}"


def _sentence(cells: _Shown, i: int, j: int, measure: str) -> str:
    value = float(cells.value[i, j])
    if cells.missing[i, j]:
        return "not recorded: unknown, not zero"
    if not (cells.ran[i, j] or value > 0):
        return "none of its tasks ran there"
    if measure == "lost_ms":
        return f"{duration(value)} of its elapsed time was lost"
    unit = "slot offered" if cells.requests[i] is Request.SLOT_WAIT else "MB"
    return f"{_cell(cells, i, j, measure)} ms per {unit}, summed over tasks"


def _title(name: str, of_stage: str, measure: str) -> str:
    if measure == "lost_ms":
        return f"Where {name}{of_stage} lost time, waiting for what"
    return f"RATP of {name}{of_stage}: ms waited per slot offered or MB moved"
