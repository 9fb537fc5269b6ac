"""Who held the slots of a cluster over time: each application's, running tasks or idle."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from iqcar.base.limits import fold
from iqcar.base.units import printable
from iqcar.causes.blame.held_blame import held_slots
from iqcar.causes.blame.task_intervals import BlameColumns
from iqcar.model.waits.shared_cluster import clusters_of
from iqcar.show.pictures import theme as look
from iqcar.show.pictures.bins import Bins
from iqcar.show.pictures.theme import OTHERS, rgba, stable_colours
from iqcar.tables import Tables, texts
from iqcar.tables.arrays import Floats, sum_by

MOST_APPLICATIONS = 10
"""Applications with a colour of their own in one cluster."""
MOST_CLUSTERS = 4
"""Clusters that are drawn, those with most slots held."""
BINS = 240
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
        kept, rest = fold(amounts, MOST_APPLICATIONS)
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
        traces += _traces(cluster, of)
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


def _traces(cluster: ClusterSlots, of: str) -> list[dict[str, Any]]:
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
