"""What hosts did over time, and who held the slots of a cluster that applications shared."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from iqcar.base import limits
from iqcar.base.units import DAYS, moment, printable
from iqcar.causes.blame.held_blame import held_slots
from iqcar.causes.blame.task_intervals import BlameColumns
from iqcar.causes.stragglers.features import clock_offsets, sampled_quantities
from iqcar.enums import Resource
from iqcar.model.queries.gaps import Gap, fold, folded_ends, gaps_of
from iqcar.model.waits.shared_cluster import clusters_of
from iqcar.show.pictures import theme as look
from iqcar.show.pictures.bins import Bins
from iqcar.show.pictures.theme import COMPUTING, OTHERS, RESOURCE_COLOURS, mix, rgba, stable_colours
from iqcar.tables import Tables, texts
from iqcar.tables.arrays import Flags, Floats, sum_by

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


MOST_APPLICATIONS = 10
"""Applications with a colour of their own in one cluster."""
MOST_CLUSTERS = 4
"""Clusters that are drawn, those with most slots held."""
CLUSTER_PX = 240
IDLE_OPACITY = 0.3


class ClusterSlots(NamedTuple):
    """Slots of one cluster over time.

    names, plain_names, colours: of the applications shown, those that held most first; the last may
    sum the others. Names are safe in a picture, plain names are not.
    busy, idle: (n_applications, n_bins) slots, mean number of slots that ran tasks, and that did
    not.
    missing: (n_bins,) slots, slots that applications lacked because others held them.
    """

    bins: Bins
    names: list[str]
    plain_names: list[str]
    colours: list[str]
    busy: Floats
    idle: Floats
    missing: Floats


def shared_clusters(tables: Tables) -> list[int]:
    """Return the numbers of the clusters that two or more applications got executors of."""
    cluster = clusters_of(tables)
    counts = np.bincount(cluster[cluster >= 0])
    return [int(number) for number in np.flatnonzero(counts > 1)]


def cluster_slots(
    tables: Tables, task_waits: pd.DataFrame, count: int = BINS
) -> list[ClusterSlots]:
    """Sum the slots of every cluster that applications share, over bins of time.

    Returns the cluster with most slots held first.
    """
    numbers = shared_clusters(tables)
    if not numbers:
        return []
    cluster = clusters_of(tables)
    columns = BlameColumns.from_tables(tables, task_waits)
    held = held_slots(
        tables,
        np.flatnonzero(np.isin(cluster, numbers)),
        columns.launch,
        columns.finish,
        columns.slots.held,
    )
    ids, names = (texts(tables.applications, name) for name in ("application_id", "name"))
    colours = stable_colours(ids)
    found = []
    for number in numbers:
        mine = cluster[held.app] == number
        if not mine.any():
            continue
        bins = Bins.over(float(held.since[mine].min()), float(held.until[mine].max()), count)
        apps, member = np.unique(held.app[mine], return_inverse=True)
        amounts = sum_by(member, (held.slots * (held.until - held.since))[mine], len(apps))
        kept, rest = limits.fold(amounts, MOST_APPLICATIONS)
        place = np.full(len(apps), len(kept))
        place[kept] = np.arange(len(kept))
        shown = [int(apps[at]) for at in kept]
        size = len(kept) + bool(len(rest))
        busy, idle = (
            bins.amounts(
                np.where(part, place[member], -1),
                size,
                held.since[mine],
                held.until[mine],
                held.slots[mine],
            )
            / bins.width_ms
            for part in (~held.idle[mine], held.idle[mine])
        )
        plain = [names[app] or ids[app] for app in shown]
        others = [f"{len(rest)} other applications"] * bool(len(rest))
        missing = np.zeros(count)
        for app, shortage in columns.shortages.items():
            if cluster[app] == number:
                one = np.zeros(len(shortage.when) - 1, np.int64)
                spans = shortage.when[:-1], shortage.when[1:], shortage.missing[:-1]
                missing += bins.amounts(one, 1, *spans)[0] / bins.width_ms
        found.append(
            ClusterSlots(
                bins,
                names=look.distinct(plain, [ids[app] for app in shown]) + others,
                plain_names=[printable(name) for name in plain] + others,
                colours=[colours[app] for app in shown] + [OTHERS] * bool(len(rest)),
                busy=busy,
                idle=idle,
                missing=missing,
            )
        )
    return sorted(found, key=lambda one: -float((one.busy + one.idle).sum() * one.bins.width_ms))


def executors(tables: Tables, task_waits: pd.DataFrame, *, dark: bool = False) -> look.Figure:
    """Draw who held the slots of each cluster that applications shared, and what was lacking."""
    clusters = cluster_slots(tables, task_waits)
    if not clusters:
        return look.nothing("No two applications of this input shared a cluster.", dark=dark)
    shown = clusters[:MOST_CLUSTERS]
    left = len(clusters) - len(shown)
    rows = reversed(look.domains(len(shown), 0.4 / len(shown)))
    traces: list[dict[str, Any]] = []
    axes: dict[str, Any] = {}
    for number, (cluster, domain) in enumerate(zip(shown, rows, strict=True), 1):
        of = look.axes_of(number)
        traces += _areas(cluster, of)
        axes[f"xaxis{of}"] = {"type": "date", "anchor": f"y{of}"}
        axes[f"yaxis{of}"] = {
            "anchor": f"x{of}", "domain": domain, "rangemode": "tozero", "nticks": 5,
            "title": {"text": "slots"},
        }  # fmt: skip
    return look.figure(
        traces,
        "Who held the cluster's slots" + (f" ({left} smaller clusters left out)" if left else ""),
        dark=dark,
        height=look.FRAME_PX + CLUSTER_PX * len(shown),
        hovermode="x",
        **axes,
        **look.legend_above([trace["name"] for trace in traces if trace["showlegend"]]),
    )


def _areas(cluster: ClusterSlots, of: str) -> list[dict[str, Any]]:
    """Areas on top of each other: of each application the slots that ran tasks, then idle ones."""
    bins = cluster.bins
    common: dict[str, Any] = {
        "type": "scatter", "mode": "lines", "x": (bins.edges()[:-1] + bins.width_ms / 2).tolist(),
        "xaxis": f"x{of}", "yaxis": f"y{of}",
    }  # fmt: skip
    areas = []
    for name, colour, busy, idle in zip(
        cluster.names, cluster.colours, cluster.busy, cluster.idle, strict=True
    ):
        for slots, said, fill in (
            (busy, name, colour),
            (idle, f"{name}, idle", rgba(colour, IDLE_OPACITY)),
        ):
            areas.append(
                {
                    **common, "y": slots.tolist(), "name": said, "stackgroup": f"held{of}",
                    "line": {"width": 0, "color": colour, "shape": "hvh"}, "fillcolor": fill,
                    "hovertemplate": f"{said}: %{{y:.1f}} slots<extra></extra>",
                    "showlegend": bool(slots.max(initial=0.0) > 0),
                }
            )  # fmt: skip
    if cluster.missing.max(initial=0.0) > 0:
        wanted = (cluster.busy + cluster.idle).sum(axis=0) + cluster.missing
        areas.append(
            {
                **common, "y": wanted.tolist(), "customdata": cluster.missing.tolist(),
                "name": "lacking because others held them", "connectgaps": False,
                "line": {"width": 1.6, "dash": "dot", "shape": "hvh"}, "showlegend": True,
                "hovertemplate": "%{customdata:.1f} slots lacking<extra></extra>",
            }
        )  # fmt: skip
    return areas
