"""What hosts did over time: slots in use, and processor, disks and network where sampled."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from iqcar.base.units import DAYS, moment
from iqcar.causes.stragglers.features import clock_offsets, sampled_quantities
from iqcar.enums import Resource
from iqcar.model.queries.gaps import Gap, fold, folded_ends, gaps_of
from iqcar.show.pictures import theme as look
from iqcar.show.pictures.bins import Bins
from iqcar.show.pictures.theme import COMPUTING, RESOURCE_COLOURS, mix
from iqcar.tables import Tables, texts
from iqcar.tables.arrays import Flags, Floats

MOST_HOSTS = 8
"""Hosts with pictures of their own: those with most task time."""
BINS = 240
HOST_PX = 130
PER_MB = 1e6
LEFT, RIGHT = [0.0, 0.6204], [0.6804, 1.0]
"""Where shares and rates are drawn, as parts of the width."""

QUANTITIES = {
    "host_cpu": ("CPU in use", RESOURCE_COLOURS[Resource.CPU]),
    "host_disk": ("busiest disk in use", RESOURCE_COLOURS[Resource.IO]),
    "host_net_in": ("network in", RESOURCE_COLOURS[Resource.NETWORK]),
    "host_net_out": ("network out", mix(RESOURCE_COLOURS[Resource.NETWORK], 0.45)),
}
"""Sampled quantities that are drawn: two shares, then two rates in bytes per second."""
HIDDEN = {"visible": False, "range": [0, 1]}
SHARES, RATES = list(QUANTITIES)[:2], list(QUANTITIES)[2:]


class HostSeries(NamedTuple):
    """Means over bins of time, by host; NaN where nobody sampled.

    sampled: (hosts,) bool: whether the host was ever sampled
    quantities: by name of :data:`QUANTITIES`, (hosts, bins)
    running: (hosts, bins) slots in use
    offered: (hosts, bins) slots of the executors that were there; NaN if a host's are unknown
    """

    sampled: Flags
    quantities: dict[str, Floats]
    running: Floats
    offered: Floats


def host_series(tables: Tables, bins: Bins) -> HostSeries:
    """Bring samples to the driver's clock, and count slots, bin by bin."""
    hosts = len(tables.hosts)
    samples = tables.samples
    host = samples["host"].to_numpy(np.int64)
    sampled = np.zeros(hosts, bool)
    quantities = {name: np.full((hosts, bins.count), np.nan) for name in QUANTITIES}
    if len(samples) and hosts:
        told = (samples["duration_ms"] > 0).to_numpy(bool)
        with np.errstate(divide="ignore", invalid="ignore"):
            values = sampled_quantities(samples)
        end = samples["time_ms"].to_numpy(np.float64) - clock_offsets(tables)[host]
        start = end - samples["duration_ms"].to_numpy(np.float64)
        for name in QUANTITIES:
            quantities[name] = bins.means(host, hosts, start, end, values[name])
        some = host[np.isfinite(values["host_cpu"]) & told & (host >= 0)]
        sampled[some] = True
    tasks, executors = tables.tasks, tables.executors
    held = np.ones(len(tasks))
    app = tasks["app"].to_numpy(np.int64)
    if len(tables.applications):
        cpus = tables.applications["task_cpus"].to_numpy(np.float64)
        held = np.where((app >= 0) & (cpus[app] > 0), cpus[app], 1.0)
    running = bins.amounts(
        tasks["host"].to_numpy(np.int64),
        hosts,
        tasks["launch_ms"].to_numpy(np.float64),
        tasks["finish_ms"].to_numpy(np.float64),
        held,
    )
    added = executors["added_ms"].to_numpy(np.float64)
    removed = executors["removed_ms"].to_numpy(np.float64)
    cores = executors["cores"].to_numpy(np.float64)
    apps, app = tables.applications, executors["app"].to_numpy(np.int64)
    begin, over = (apps[name].to_numpy(np.float64)[app] for name in ("start_ms", "end_ms"))
    last = bins.start_ms + bins.width_ms * bins.count
    begin, over = np.where(over > begin, [begin, over], [[bins.start_ms], [last]])
    place = executors["host"].to_numpy(np.int64)
    offered = bins.amounts(
        place,
        hosts,
        np.where(np.isfinite(added), added, begin),
        np.where(np.isfinite(removed), removed, over),
        np.nan_to_num(cores),
    )
    blind = place[(place >= 0) & ~(cores > 0)]
    offered[blind] = np.nan
    offered[~np.isin(np.arange(hosts), place)] = np.nan
    return HostSeries(sampled, quantities, running / bins.width_ms, offered / bins.width_ms)


def span_of(tables: Tables) -> tuple[float, float] | None:
    """First launch, submission or start, and last end, in ms; None where nothing has a time."""
    moments = [
        tables.tasks[["launch_ms", "finish_ms"]].to_numpy(np.float64).ravel(),
        tables.queries[["start_ms", "end_ms"]].to_numpy(np.float64).ravel(),
        tables.stages[["submission_ms", "completion_ms"]].to_numpy(np.float64).ravel(),
    ]
    every = np.concatenate(moments)
    every = every[np.isfinite(every) & (every > 0)]
    return (float(every.min()), float(every.max())) if len(every) else None


def hosts(tables: Tables, *, dark: bool = False) -> look.Figure:
    """Draw each host: on the left slots, processor and disks in percent, on the right network.

    Slots in use are a share of those its executors offered, else of the most ever in use there.
    What was not sampled is hatched; where nothing was, there are slots alone. Between logs years
    apart the axis is broken.
    """
    gaps = gaps_of(tables)
    tables = fold(tables, gaps)
    span = span_of(tables)
    if span is None or not len(tables.hosts) or not len(tables.tasks):
        return look.nothing("No task ran in this input.", dark=dark)
    bins = Bins.over(*span, BINS)
    series = host_series(tables, bins)
    busy = series.running.sum(axis=1)
    ranked = [int(h) for h in np.argsort(-busy, kind="stable") if busy[h] > 0 or series.sampled[h]]
    shown = sorted(ranked[:MOST_HOSTS])
    if not shown:
        return look.nothing("No task ran in this input.", dark=dark)
    left = len(ranked) - len(shown)
    told = bool(series.sampled[shown].any())
    said = "" if told else "; CPU, disks and network were not recorded"
    tall = HOST_PX * len(shown)
    last = look.axes_of(2 * len(shown) - 1)
    dates = _date_axis(gaps, span[0])
    axes: dict[str, Any] = {
        "xaxis": {**dates, "domain": LEFT if told else [0, 1], "anchor": f"y{last}"},
        "xaxis2": {**dates, "domain": RIGHT, "anchor": f"y{2 * len(shown)}"},
    }
    names = texts(tables.hosts, "host")
    traces, notes = [], []
    for row, domain in enumerate(reversed(look.domains(len(shown), min(0.25, 34 / tall)))):
        host, at, beside = shown[row], look.axes_of(2 * row + 1), 2 * row + 2
        traces += _traces(series, host, bins, at, beside)[: None if told else 1]
        rates = {"rangemode": "tozero"} if series.sampled[host] else HIDDEN
        axes[f"yaxis{at}"] = {
            "domain": domain,
            "anchor": "x",
            "range": [0, 102],
            "ticksuffix": " %",
            "nticks": 4,
        }
        axes[f"yaxis{beside}"] = {"domain": domain, "anchor": "x2", "nticks": 4, **rates}
        titles = ((look.label(names[host], 40), LEFT[0]), ("network, MB/s", RIGHT[0]))
        notes += [_title(text, x, domain[1]) for text, x in titles[: None if told else 1]]
    _legend_once(traces)
    return look.figure(
        traces,
        "What hosts did" + (f" ({left} less busy ones left out)" if left else "") + said,
        dark=dark,
        height=look.FRAME_PX + tall,
        hovermode="closest" if gaps else "x",
        legend={"orientation": "h", "y": -40 / tall, "yanchor": "top", "x": 0},
        annotations=notes,
        **axes,
    )  # fmt: skip


def _title(text: str, x: float, y: float) -> dict[str, Any]:
    """Name a plot, above its left end."""
    paper = {"xref": "paper", "yref": "paper", "xanchor": "left", "yanchor": "bottom"}
    return {"text": text, "font": {"size": 12}, "showarrow": False, **paper, "x": x, "y": y}


def _date_axis(gaps: list[Gap], start_ms: float) -> dict[str, Any]:
    """An axis of times, with the date after each gap where the picture leaves out gaps."""
    if not gaps:
        return {"type": "date"}
    starts = [moment(ms, DAYS) for ms in (start_ms, *(gap.end_ms for gap in gaps))]
    return {"type": "date", "tickvals": [start_ms, *folded_ends(gaps)], "ticktext": starts}


def slot_shares(series: HostSeries, host: int) -> Floats:
    """Slots in use as a share of those offered; of the most ever in use where none is known."""
    offered = series.offered[host]
    room = np.where(offered > 0, offered, np.nan)
    most = max(float(np.nanmax(series.running[host], initial=0.0)), 1.0)
    whole = np.maximum(np.where(np.isnan(room), most, room), 1e-9)
    shares: Floats = np.minimum(series.running[host] / whole, 1.0)
    return shares


def _traces(
    series: HostSeries, host: int, bins: Bins, at: str, beside: int
) -> list[dict[str, Any]]:
    """Slots and shares on the left, rates or hatching on the right."""
    lines = {
        "type": "scatter", "mode": "lines", "x": (bins.edges()[:-1] + bins.width_ms / 2).tolist(),
    }  # fmt: skip
    left, right = {"xaxis": "x", "yaxis": f"y{at}"}, {"xaxis": "x2", "yaxis": f"y{beside}"}
    slots = {
        **lines, **left, "y": (100 * slot_shares(series, host)).tolist(), "fill": "tozeroy",
        "name": "slots in use", "line": {"width": 0, "color": COMPUTING, "shape": "hvh"},
        "hovertemplate": "%{y:.0f} % of slots in use<extra></extra>",
    }  # fmt: skip
    if not series.sampled[host]:
        width = bins.width_ms * bins.count
        unknown = {
            **right, "type": "bar", "name": "not recorded", "marker": look.HATCHED,
            "x": [bins.start_ms + width / 2], "y": [1], "width": [width], "hoverinfo": "text",
            "hovertext": ["processor, disks and network were not recorded here: unknown, not zero"],
        }  # fmt: skip
        return [slots, unknown]

    def line(name: str, per: float, written: str, place: dict[str, str]) -> dict[str, Any]:
        text, colour = QUANTITIES[name]
        values = series.quantities[name][host] * per
        return {
            **lines, **place, "name": text, "connectgaps": False,
            "y": [float(v) if np.isfinite(v) else None for v in values],
            "line": {"width": 1.6, "color": colour, "shape": "hvh"},
            "hovertemplate": f"{text}: {written}<extra></extra>",
        }  # fmt: skip

    shares = [line(name, 100, "%{y:.0f} %", left) for name in SHARES]
    rates = [line(name, 1 / PER_MB, "%{y:.2f} MB/s", right) for name in RATES]
    return [slots, *shares, *rates]


def _legend_once(traces: list[dict[str, Any]]) -> None:
    """Show each name once in the legend; a click there is for all of that name."""
    seen: set[str] = set()
    for trace in traces:
        trace |= {"legendgroup": trace["name"], "showlegend": trace["name"] not in seen}
        seen.add(trace["name"])
