"""Number the runs of one side: the units that statistics count."""

from __future__ import annotations

import numpy as np

from iqcar.base.formatting import HOUR_MS
from iqcar.enums import RunBy
from iqcar.model.waits.shared_cluster import clusters_of
from iqcar.tables import Tables
from iqcar.tables.arrays import Floats, Ints


def runs_of_queries(tables: Tables, run_by: RunBy) -> Ints:
    """Return the run of each query.

    Parameters
    ----------
    tables : Tables
        Their queries must be identified.
    run_by : RunBy
        What one run is.

    Returns
    -------
    ndarray of shape (n_queries,), int64
        Numbered from 0 in the order of time.
    """
    app = tables.queries["app"].to_numpy(np.int64)
    start = tables.queries["start_ms"].to_numpy(np.float64)
    if run_by is RunBy.QUERY:
        run = np.arange(len(app))
    elif run_by is RunBy.APPLICATION:
        run = app
    else:
        run = _runs_of_applications(tables)[app]
    return _numbered_by_time(run, start)


def _runs_of_applications(tables: Tables) -> Ints:
    """Return the run of each application: those of one cluster and hour that overlap share one.

    Applications one after another repeat what runs do, so each is a run, whatever the hour.
    """
    apps = tables.applications
    start, end = (apps[name].to_numpy(np.float64) for name in ("start_ms", "end_ms"))
    start = np.nan_to_num(start)
    end = np.fmax(np.nan_to_num(end), start)
    cluster = clusters_of(tables)
    run = np.arange(len(apps))
    last: dict[tuple[int, int], tuple[int, float]] = {}
    for app in np.argsort(start, kind="stable").tolist():
        if cluster[app] < 0:
            continue  # nothing says that it shared a cluster
        key = (int(cluster[app]), int(start[app] // HOUR_MS))
        first, until = last.get(key, (app, -np.inf))
        if start[app] >= until:
            first = app
        run[app] = first
        last[key] = (first, max(until, float(end[app])))
    return run


def _numbered_by_time(run: Ints, start: Floats) -> Ints:
    """Number groups from 0 by their first start."""
    _, first, group = np.unique(run, return_index=True, return_inverse=True)
    began = np.full(len(first), np.inf)
    np.minimum.at(began, group, np.nan_to_num(start))
    number = np.empty(len(first), np.int64)
    number[np.lexsort((first, began))] = np.arange(len(first))
    numbered: Ints = number[group]
    return numbered
