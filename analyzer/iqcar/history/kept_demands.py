"""Keeps what runs told of own rates and capacities, and gives it to the diagnosis of later runs.

Several runs are merged as normal distributions are: by precision, and with their scatter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from iqcar.enums import REQUESTS
from iqcar.errors import IqcarError
from iqcar.history.store_views import view_of
from iqcar.model.demand.known import BOUNDS, HOST_KEY, STAGE_KEY, Known, Recalled, stage_keys
from iqcar.tables import Tables, texts

if TYPE_CHECKING:
    from iqcar.history.store_views import StoreView
    from iqcar.history.stored_files import Store

VERSION = 1
"""Version of what rows mean; a later one is not read."""
MOST_KEPT = 2_000
"""Rows that are kept of an application at most, the surest first."""
MOST_READ = 200_000
"""Rows that are read at most, the last added first."""
MOST_VARIANCE = 10.0
"""A larger variance is absurd."""
_MEASURED = ["log_value", "variance", "runs"]
_NAMES = ["fingerprint", "stage", "position", "host", "request"]


def demand_values(tables: Tables, told: Known) -> pd.DataFrame:
    """Return ``app`` and the columns of `DEMANDS` after its key, of what a run told.

    Runs of a query in one application are merged.
    """
    rates, keys = told.rates, stage_keys(tables).set_index("row")
    of_rates = pd.DataFrame(
        {"row": rates.stage, "request": rates.request, "log_value": rates.log_rate,
         "variance": rates.variance}
    ).join(keys, on="row", how="inner")  # fmt: skip
    of_rates["app"] = tables.queries["app"].to_numpy(np.int64)[of_rates["query"]]
    hosts = told.capacities
    names = np.array(texts(tables.hosts, "host"), object)
    ran = tables.tasks[["app", "host"]].drop_duplicates()
    of_hosts = pd.DataFrame(
        {"row": hosts.host, "request": hosts.request, "log_value": hosts.log_capacity,
         "variance": hosts.variance}
    ).merge(ran, left_on="row", right_on="host")  # fmt: skip
    of_hosts = of_hosts.assign(host=names[of_hosts["row"].to_numpy(np.int64)])
    every = pd.concat(
        [of_rates.assign(host=""), of_hosts.assign(fingerprint="", stage="", position=0)]
    ).assign(runs=1)
    names_of = np.array([str(request) for request in REQUESTS], object)
    every["request"] = names_of[every["request"].to_numpy(np.int64)]
    found = merged(every, ["app", *_NAMES]).assign(version=VERSION)
    found = found.sort_values("variance", kind="stable").groupby("app").head(MOST_KEPT)
    return found.sort_index()[["app", "version", *_NAMES, *_MEASURED]]


def merged(frame: pd.DataFrame, key: list[str]) -> pd.DataFrame:
    """Merge rows of one key: ``log_value``, ``variance`` and ``runs``."""
    value, precision = frame["log_value"], 1.0 / frame["variance"]
    sums = (
        frame[key].assign(p=precision, x=precision * value, xx=precision * value**2,
                          runs=frame["runs"])
        .groupby(key, as_index=False).sum()
    )  # fmt: skip
    mean = sums["x"] / sums["p"]
    scatter = np.maximum(sums["xx"] / sums["p"] - mean**2, 0.0)
    sums = sums.assign(log_value=mean, variance=1.0 / sums["p"] + scatter)
    return sums[[*key, *_MEASURED]]


def known_demand(store: Store | str | StoreView, tables: Tables) -> Recalled:
    """Return what a store holds of the queries and hosts of some tables, for the diagnosis of them.

    Rows of the same applications do not count: they would confirm themselves.

    Raises IqcarError if there is no store, or it is of a newer iqcar.
    """
    about = view_of(store)
    prints, hosts = (
        pd.DataFrame({name: sorted({*texts(table, name)} - {""})}, dtype="string")
        for table, name in ((tables.queries, "fingerprint"), (tables.hosts, "host"))
    )
    own = tables.applications[["application_id", "attempt_id"]].astype(str)
    rows = about.ask(
        f"""SELECT version, {", ".join(_NAMES + _MEASURED)} FROM demands
        WHERE (fingerprint IN (FROM asked_prints) OR host IN (FROM asked_hosts))
          AND (application_id, attempt_id) NOT IN (FROM asked_applications)
        ORDER BY batch DESC LIMIT {MOST_READ}""",
        asked_prints=prints, asked_hosts=hosts, asked_applications=own,
    )  # fmt: skip
    newest = rows["version"].max()
    if newest > VERSION:
        raise IqcarError(
            f"its own rates have version {newest:.0f}", about.store.url, "a newer iqcar can read it"
        )
    shared = len(about.ask("SELECT 1 FROM hosts WHERE host IN (FROM asked_hosts) LIMIT 1"))
    sane = _is_sane(rows)
    damaged = about.store.set_aside_lines()
    doubts = damaged or _nothing_known(about, len(rows), shared)
    if not sane.all():
        doubts.append(
            f"{int((~sane).sum())} of {len(sane)} own rates and capacities in the store are absurd "
            "and were ignored"
        )
    rows = rows[sane]
    of_host = rows["host"].to_numpy() != ""
    return Recalled(
        merged(rows[~of_host], STAGE_KEY), merged(rows[of_host], HOST_KEY), bool(shared),
        tuple(doubts),
    )  # fmt: skip


def _is_sane(rows: pd.DataFrame) -> np.ndarray:
    value, variance = (rows[name].to_numpy(np.float64) for name in ("log_value", "variance"))
    low, high = BOUNDS
    within = (value >= low) & (value <= high) & (variance > 0) & (variance <= MOST_VARIANCE)
    runs, version = (rows[name].to_numpy(np.float64) for name in ("runs", "version"))
    sane: np.ndarray = within & (runs >= 1) & (version == VERSION)
    return sane


def _nothing_known(about: StoreView, rows: int, shared: int) -> list[str]:
    """Say why a store tells nothing of some queries, in at most one sentence."""
    if rows:
        return []
    alike = "SELECT 1 FROM queries WHERE fingerprint IN (FROM asked_prints) LIMIT 1"
    if shared or len(about.ask(alike)):
        return [
            "the store does not tell what these queries need: no run of them in it was alone, or "
            "an older iqcar added them (`iqcar history add --again`)"
        ]
    return [
        "nothing of the store was used: it knows none of these hosts and no run of these queries"
    ]
