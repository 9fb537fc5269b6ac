"""What hosts did over time: slots in use, and processor, disks and network where sampled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from iqcar.enums import Resource
from iqcar.show.pictures.bins import Bins
from iqcar.show.pictures.host_series import HostSeries, host_series, span_of
from iqcar.show.pictures.labels import label
from iqcar.show.pictures.palette import COMPUTING, RESOURCE_COLOURS, mix
from iqcar.show.pictures.theme import FRAME_PX, figure, hatched, nothing
from iqcar.tables import Tables, texts
from iqcar.tables.arrays import Floats

if TYPE_CHECKING:
    import plotly.graph_objects as go

MOST_HOSTS = 8
"""Hosts with pictures of their own: those with most task time."""
BINS = 240
HOST_PX = 130
PER_MB = 1e6
SHARES = {
    "host_cpu": ("CPU in use", RESOURCE_COLOURS[Resource.CPU]),
    "host_disk": ("busiest disk in use", RESOURCE_COLOURS[Resource.IO]),
}
RATES = {
    "host_net_in": ("network in", RESOURCE_COLOURS[Resource.NETWORK]),
    "host_net_out": ("network out", mix(RESOURCE_COLOURS[Resource.NETWORK], 0.45)),
}


def hosts(tables: Tables, *, dark: bool = False) -> go.Figure:
    """Draw each host: on the left slots, processor and disks in percent, on the right network.

    Slots in use are a share of those its executors offered, else of the most ever in use there.
    What was not sampled is hatched.
    """
    span = span_of(tables)
    if span is None or not len(tables.hosts) or not len(tables.tasks):
        return nothing("No task ran in this input.", dark=dark)
    bins = Bins.over(*span, BINS)
    series = host_series(tables, bins)
    busy = series.running.sum(axis=1)
    ranked = [int(h) for h in np.argsort(-busy, kind="stable") if busy[h] > 0 or series.sampled[h]]
    shown = sorted(ranked[:MOST_HOSTS])
    if not shown:
        return nothing("No task ran in this input.", dark=dark)
    from plotly.subplots import make_subplots

    names = texts(tables.hosts, "host")
    titles = [text for h in shown for text in (label(names[h], 40), "network, MB/s")]
    left = len(ranked) - len(shown)
    sampled = int(series.sampled[shown].sum())
    said = "" if sampled else "; CPU, disks and network were not recorded"
    empty = figure(
        [],
        "What hosts did" + (f" ({left} less busy ones left out)" if left else "") + said,
        dark=dark,
        height=FRAME_PX + HOST_PX * len(shown),
        hovermode="x",
        legend={"orientation": "h", "y": -40 / (HOST_PX * len(shown)), "yanchor": "top", "x": 0},
    )
    made = make_subplots(
        rows=len(shown),
        cols=2,
        shared_xaxes=True,
        column_widths=[0.66, 0.34],
        vertical_spacing=min(0.25, 34 / (HOST_PX * len(shown))),
        horizontal_spacing=0.06,
        subplot_titles=titles,
        figure=empty,
    )
    at = (bins.edges()[:-1] + bins.width_ms / 2).tolist()
    told = [h for h in shown if series.sampled[h]][:1]
    untold = [h for h in shown if not series.sampled[h]][:1]
    for row, host in enumerate(shown, 1):
        made.add_trace(_slots(series, host, at, row == 1), row=row, col=1)
        for trace in _shares(series, host, at, host in told):
            made.add_trace(trace, row=row, col=1)
        if series.sampled[host]:
            for trace in _rates(series, host, at, host in told):
                made.add_trace(trace, row=row, col=2)
        else:
            made.add_trace(_unsampled(bins, host in untold, dark), row=row, col=2)
            made.update_yaxes(visible=False, range=[0, 1], row=row, col=2)
    made.update_annotations(font={"size": 12}, xanchor="left")
    for number, note in enumerate(made.layout.annotations):
        note.x = 0.0 if number % 2 == 0 else made.layout.xaxis2.domain[0]
    made.update_xaxes(type="date")
    made.update_yaxes(range=[0, 102], ticksuffix=" %", nticks=4, col=1)
    made.update_yaxes(rangemode="tozero", nticks=4, col=2)
    return made


def slot_shares(series: HostSeries, host: int) -> Floats:
    """Slots in use as a share of those offered; of the most ever in use where none is known."""
    offered = series.offered[host]
    room = np.where(offered > 0, offered, np.nan)
    most = max(float(np.nanmax(series.running[host], initial=0.0)), 1.0)
    whole = np.maximum(np.where(np.isnan(room), most, room), 1e-9)
    shares: Floats = np.minimum(series.running[host] / whole, 1.0)
    return shares


def _slots(series: HostSeries, host: int, at: list[float], legend: bool) -> Any:
    import plotly.graph_objects as go

    used = 100 * slot_shares(series, host)
    return go.Scatter(
        x=at, y=used.tolist(), name="slots in use", mode="lines", fill="tozeroy",
        line={"width": 0, "color": COMPUTING, "shape": "hvh"}, legendgroup="slots",
        showlegend=legend, hovertemplate="%{y:.0f} % of slots in use<extra></extra>",
    )  # fmt: skip


def _shares(series: HostSeries, host: int, at: list[float], legend: bool) -> list[Any]:
    import plotly.graph_objects as go

    if not series.sampled[host]:
        return []
    return [
        go.Scatter(
            x=at, y=_known(100 * series.quantities[name][host]), name=text, mode="lines",
            line={"width": 1.6, "color": colour, "shape": "hvh"}, legendgroup=name,
            showlegend=legend, connectgaps=False,
            hovertemplate=f"{text}: %{{y:.0f}} %<extra></extra>",
        )
        for name, (text, colour) in SHARES.items()
    ]  # fmt: skip


def _rates(series: HostSeries, host: int, at: list[float], legend: bool) -> list[Any]:
    import plotly.graph_objects as go

    return [
        go.Scatter(
            x=at, y=_known(series.quantities[name][host] / PER_MB), name=text, mode="lines",
            line={"width": 1.6, "color": colour, "shape": "hvh"}, legendgroup=name,
            showlegend=legend, connectgaps=False,
            hovertemplate=f"{text}: %{{y:.2f}} MB/s<extra></extra>",
        )
        for name, (text, colour) in RATES.items()
    ]  # fmt: skip


def _unsampled(bins: Bins, legend: bool, dark: bool) -> Any:
    import plotly.graph_objects as go

    width = bins.width_ms * bins.count
    return go.Bar(
        x=[bins.start_ms + width / 2], y=[1], width=[width], marker=hatched(dark),
        name="not recorded", legendgroup="gap", showlegend=legend, hoverinfo="text",
        hovertext=["processor, disks and network were not recorded here: unknown, not zero"],
    )  # fmt: skip


def _known(values: Floats) -> list[float | None]:
    return [float(v) if np.isfinite(v) else None for v in values]
