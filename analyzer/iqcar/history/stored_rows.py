"""Turns a diagnosis into the rows that a store keeps, and kept demands into those of later runs.

Several runs are merged as normal distributions are: by precision, and with their scatter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from iqcar.causes.blame.demand_weights import BLAME_KINDS, RESOURCES
from iqcar.causes.stragglers.straggler_result import UNEXPLAINED
from iqcar.diagnosis import Diagnosis
from iqcar.enums import REQUESTS, BlameKind, Resource
from iqcar.errors import IqcarError
from iqcar.history.store_views import view_of
from iqcar.history.stored_files import (
    APPLICATIONS,
    BLAME,
    CAUSES,
    DEMANDS,
    HOSTS,
    PROPERTIES,
    QUERIES,
    STAGES,
)
from iqcar.model.demand.estimate import BOUNDS, HOST_KEY, STAGE_KEY, Known, Recalled, stage_keys
from iqcar.model.queries.identify import owners
from iqcar.model.waits.stage_parts import query_paths
from iqcar.tables import NONE, Tables, texts
from iqcar.tables.arrays import Floats, Ints, sum_by
from iqcar.version import __version__

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


Rows = dict[str, pd.DataFrame]

SMALL = 0.01
"""Rows of blame below this share of the query's lost time are summed: first over hosts, then over
sources. Stages below this share of its duration are summed."""

_BYTES_READ = ("input_bytes", "remote_bytes", "local_bytes")


def rows_of(diagnosis: Diagnosis, log_bytes: Mapping[str, int], batch: str) -> Rows:
    """Take from a diagnosis what later questions need.

    log_bytes: stored size of each log, by its path.
    batch: name of the addition.

    Returns the tables of :data:`iqcar.history.stored_files.STORED`, by name; rows of applications
    that could be read.
    """
    apps = _Applications(diagnosis, batch)
    return {
        APPLICATIONS.name: _applications(diagnosis, apps, log_bytes),
        QUERIES.name: _queries(diagnosis, apps),
        STAGES.name: _stages(diagnosis, apps),
        BLAME.name: _blame(diagnosis, apps),
        CAUSES.name: _causes(diagnosis, apps),
        HOSTS.name: _hosts(diagnosis, apps),
        PROPERTIES.name: _properties(diagnosis, apps),
        DEMANDS.name: _demands(diagnosis, apps),
    }


class _Applications:
    """Names of applications and of their queries, by row of the diagnosis."""

    def __init__(self, diagnosis: Diagnosis, batch: str) -> None:
        applications, queries = diagnosis.tables.applications, diagnosis.tables.queries
        self.batch = batch
        self.ids = np.array(texts(applications, "application_id"), object)
        self.attempts = np.array(texts(applications, "attempt_id"), object)
        self.of_query = queries["app"].to_numpy(np.int64)
        self.query_ids = np.array(texts(queries, "query_id"), object)

    def key(self, app: Ints) -> dict[str, object]:
        """Return the first columns of every table, for rows of these applications."""
        return {
            "batch": np.full(len(app), self.batch, object),
            "application_id": self.ids[app],
            "attempt_id": self.attempts[app],
        }


def _applications(
    diagnosis: Diagnosis, apps: _Applications, log_bytes: Mapping[str, int]
) -> pd.DataFrame:
    tables = diagnosis.tables
    size, applications = len(tables.applications), tables.applications
    inputs = tables.inputs[tables.inputs["app"] >= 0].drop_duplicates("app", keep="last")
    inputs = inputs.set_index("app").reindex(range(size))
    paths = texts(inputs, "path")
    return APPLICATIONS.frame(
        {
            **apps.key(np.arange(size)),
            **{name: applications[name] for name in ("name", "user", "spark_version", "master")},
            "path": paths,
            "log_bytes": np.array([log_bytes.get(path, 0) for path in paths], np.int64),
            "status": texts(inputs, "status"),
            "message": texts(inputs, "message"),
            "start_ms": applications["start_ms"],
            "end_ms": applications["end_ms"],
            "queries": np.bincount(apps.of_query, minlength=size),
            "tasks": _counts(tables.tasks["app"], size),
            "beside": np.full(size, size - 1),
            "iqcar_version": np.full(size, __version__, object),
        }
    )


def _queries(diagnosis: Diagnosis, apps: _Applications) -> pd.DataFrame:
    tables, queries = diagnosis.tables, diagnosis.tables.queries
    size = len(queries)
    waits = {}
    for resource in Resource:
        rows = diagnosis.query_waits[(diagnosis.query_waits["resource"] == resource).to_numpy()]
        waits[f"{resource}_wait_ms"] = rows["wait_ms"].to_numpy(np.float64)
        waits[f"{resource}_evidence"] = texts(rows, "evidence")
    copied = ("name", "kind", "fingerprint", "family", "pool", "start_ms", "duration_ms")
    counts = ("ended", "failed", "error", "stages", "tasks")
    return QUERIES.frame(
        {
            **apps.key(apps.of_query),
            "query_id": apps.query_ids,
            **{name: queries[name] for name in (*copied, *counts)},
            **{name: np.array(owners(tables, name), object) for name in ("user", "session")},
            **_task_sums(tables.tasks, "query", size),
            "lost_ms": diagnosis.lost_ms(),
            "lost_to_others_ms": diagnosis.lost_to_others_ms(),
            "wasted_ms": diagnosis.wasted.of_queries(size)["wasted_elapsed_ms"],
            **waits,
        }
    )


def _stages(diagnosis: Diagnosis, apps: _Applications) -> pd.DataFrame:
    tables, stages = diagnosis.tables, diagnosis.tables.stages
    size = len(tables.queries)
    label, site = texts(stages, "label"), texts(stages, "name")
    of_stage = pd.DataFrame(
        {
            "query": stages["query"].to_numpy(np.int64),
            "stage": [own or named for own, named in zip(label, site, strict=True)],
            "attempts": 1,
            "tasks": _counts(tables.tasks["stage"], len(stages)),
            "elapsed_ms": query_paths(tables, np.ones(size, bool)).stage_ms,
            **_task_sums(tables.tasks, "stage", len(stages)),
        }
    )
    of_stage = of_stage[of_stage["query"] >= 0]
    frame = _by_stage(of_stage)
    duration = tables.queries["duration_ms"].to_numpy(np.float64)[frame["query"]]
    frame.loc[~(frame["elapsed_ms"] >= SMALL * duration), "stage"] = ""
    frame = _by_stage(frame)
    query = frame["query"].to_numpy(np.int64)
    measured = {name: frame[name] for name in frame.columns[1:]}
    return STAGES.frame(
        {**apps.key(apps.of_query[query]), "query_id": apps.query_ids[query], **measured}
    )


def _by_stage(frame: pd.DataFrame) -> pd.DataFrame:
    summed: pd.DataFrame = frame.groupby(["query", "stage"]).sum(min_count=1).reset_index()
    return summed


def _task_sums(tasks: pd.DataFrame, of: str, size: int) -> dict[str, Floats]:
    """Sum the tasks of each row that a column of theirs names."""
    tasks = tasks[tasks[of] >= 0]
    row = tasks[of].to_numpy(np.int64)
    duration = np.nan_to_num((tasks["finish_ms"] - tasks["launch_ms"]).to_numpy(np.float64))
    read = np.nansum(tasks[list(_BYTES_READ)].to_numpy(np.float64), axis=1)
    return {
        "task_ms": sum_by(row, duration, size),
        "cpu_ms": _known_sum(row, tasks["cpu_ms"].to_numpy(np.float64), size),
        "read_bytes": sum_by(row, read, size),
    }


def _counts(rows: pd.Series, size: int) -> Ints:
    """Count how often each row is named."""
    counts: Ints = np.bincount(rows[rows >= 0].to_numpy(np.int64), minlength=size)
    return counts


def _known_sum(group: Ints, values: Floats, size: int) -> Floats:
    """Sum by group; NaN where no value of a group is known."""
    known = np.isfinite(values)
    sums: Floats = sum_by(group[known], values[known], size)
    return np.where(np.bincount(group[known], minlength=size) > 0, sums, np.nan)


def _blame(diagnosis: Diagnosis, apps: _Applications) -> pd.DataFrame:
    graph = diagnosis.graph
    s, lost = graph.structure, graph.lost.amount[4]
    at = np.flatnonzero(lost > 0)
    lost, demand = lost[at], s.towards[4][at]
    source = s.source_query[graph.query_of_explanation[at]]
    is_query = np.isin(np.array([kind.value for kind in BLAME_KINDS])[s.kind[at]], _NAMED)
    frame = pd.DataFrame(
        {
            "query": s.targets[s.target[4][at]],
            "kind": s.kind[at],
            "source": np.where(is_query, source, NONE),
            "resource": graph.resource_of_demand[demand],
            "host": s.host[demand],
            "lost_ms": lost,
            "idle_ms": lost * graph.idle_share[s.explanation[at]],
        }
    )
    # A source stage without a known query cannot be named.
    nameless = (frame["kind"] == _CODE[BlameKind.QUERY]) & (frame["source"] < 0)
    frame.loc[nameless, "kind"] = _CODE[BlameKind.UNATTRIBUTED]
    frame = _summed(frame)
    total = frame.groupby("query")["lost_ms"].transform("sum")
    frame.loc[frame["lost_ms"] < SMALL * total, "host"] = NONE
    frame = _summed(frame)
    total = frame.groupby("query")["lost_ms"].transform("sum")
    small = (frame["lost_ms"] < SMALL * total) & (frame["kind"] == _CODE[BlameKind.QUERY])
    frame.loc[small, "kind"] = _CODE[BlameKind.REST]
    frame.loc[small, "source"] = NONE
    frame = _summed(frame)
    query, source = frame["query"].to_numpy(np.int64), frame["source"].to_numpy(np.int64)
    named = source >= 0
    of_source = apps.of_query[source]
    host_names = np.array([*texts(diagnosis.tables.hosts, "host"), ""], object)
    return BLAME.frame(
        {
            **apps.key(apps.of_query[query]),
            "query_id": apps.query_ids[query],
            "kind": np.array([kind.value for kind in BLAME_KINDS], object)[frame["kind"]],
            "source_application_id": np.where(named, apps.ids[of_source], ""),
            "source_attempt_id": np.where(named, apps.attempts[of_source], ""),
            "source_query_id": np.where(named, apps.query_ids[source], ""),
            "resource": np.array([r.value for r in RESOURCES], object)[frame["resource"]],
            "host": host_names[frame["host"]],
            "lost_ms": frame["lost_ms"],
            "idle_ms": frame["idle_ms"],
        }
    )


_CODE = {kind: code for code, kind in enumerate(BLAME_KINDS)}
_NAMED = [BlameKind.QUERY.value, BlameKind.OWN.value]
_CELL = ["query", "kind", "source", "resource", "host"]


def _summed(frame: pd.DataFrame) -> pd.DataFrame:
    """Sum rows of the same query, source, resource and host."""
    summed: pd.DataFrame = frame.groupby(_CELL, as_index=False, sort=True).sum()
    return summed


def _causes(diagnosis: Diagnosis, apps: _Applications) -> pd.DataFrame:
    stragglers, causes = diagnosis.stragglers.stragglers, diagnosis.stragglers.causes
    per = causes[["straggler", "cause"]].drop_duplicates()
    alone = np.flatnonzero(stragglers["causes"].to_numpy() == 0)
    cause = [*texts(per, "cause"), *[UNEXPLAINED] * len(alone)]
    rows = stragglers.iloc[np.concatenate([per["straggler"].to_numpy(np.int64), alone])]
    counted = pd.DataFrame(
        {
            "query": rows["query"].to_numpy(np.int64),
            "host": rows["host"].to_numpy(np.int64),
            "cause": cause,
            "delay_ms": rows["delay_ms"].to_numpy(np.float64),
        }
    )
    counted = counted[counted["query"] >= 0]
    frame = (
        counted.groupby(["query", "host", "cause"])
        .agg(stragglers=("delay_ms", "size"), delay_ms=("delay_ms", "sum"))
        .reset_index()
    )
    query = frame["query"].to_numpy(np.int64)
    host_names = np.array([*texts(diagnosis.tables.hosts, "host"), ""], object)
    return CAUSES.frame(
        {
            **apps.key(apps.of_query[query]),
            "query_id": apps.query_ids[query],
            "host": host_names[frame["host"].to_numpy(np.int64)],
            "cause": frame["cause"],
            "stragglers": frame["stragglers"],
            "delay_ms": frame["delay_ms"],
        }
    )


def _hosts(diagnosis: Diagnosis, apps: _Applications) -> pd.DataFrame:
    tables, stragglers = diagnosis.tables, diagnosis.stragglers.stragglers
    tasks = tables.tasks[["app", "host", "stage", "status"]].copy()
    tasks["ms"] = tables.tasks["finish_ms"] - tables.tasks["launch_ms"]
    tasks = tasks[tasks["host"] >= 0]
    ended = tasks[tasks["status"] == "success"].groupby("stage")
    hosts = ended["host"].nunique()
    median = ended["ms"].median().where(hosts > 1)
    expected = tasks["stage"].map(median).where(tasks["status"] == "success")
    per = tasks.assign(
        expected_ms=expected, compared_ms=tasks["ms"].where(expected.notna())
    ).groupby(["app", "host"])
    frame = per.agg(
        tasks=("ms", "size"),
        task_ms=("ms", "sum"),
        compared_ms=("compared_ms", "sum"),
        expected_ms=("expected_ms", "sum"),
    )
    late = stragglers.groupby(["app", "host"])["delay_ms"].agg(["size", "sum"])
    late = late.reindex(frame.index, fill_value=0)
    app, host = (frame.index.get_level_values(k).to_numpy(np.int64) for k in (0, 1))
    return HOSTS.frame(
        {
            **apps.key(app),
            "host": np.array(texts(tables.hosts, "host"), object)[host],
            **{name: frame[name].to_numpy() for name in frame.columns},
            "stragglers": late["size"].to_numpy(np.int64),
            "delay_ms": late["sum"].to_numpy(np.float64),
        }
    )


def _demands(diagnosis: Diagnosis, apps: _Applications) -> pd.DataFrame:
    """Lay out own rates and capacities that tasks told; those of a host for each application."""
    frame = demand_values(diagnosis.tables, diagnosis.blame.demand.learned.told)
    return DEMANDS.frame({**apps.key(frame.pop("app").to_numpy(np.int64)), **frame})


def _properties(diagnosis: Diagnosis, apps: _Applications) -> pd.DataFrame:
    """Lay out what applications set, and what jobs and SQL sessions set otherwise."""
    tables = diagnosis.tables
    conf, jobs = tables.conf, tables.jobs
    names = ["app", "key", "value"]
    every = conf[(conf["sql_execution"] < 0) & (conf["app"] >= 0)][names]
    of_execution = jobs[jobs["sql_execution"] >= 0].set_index("sql_execution")["query"]
    session = conf[conf["sql_execution"] >= 0]
    by_session = session.assign(
        query=session["sql_execution"].map(of_execution.groupby(level=0).first())
    )
    own = tables.job_properties
    by_job = own.assign(query=jobs["query"].to_numpy()[own["job"].to_numpy(np.int64)])
    parts = [part[["query", "key", "value"]] for part in (by_session, by_job)]
    of_query = pd.concat(parts).dropna(subset="query").astype({"query": np.int64})
    of_query = of_query[of_query["query"] >= 0].drop_duplicates()
    of_query = of_query.assign(app=apps.of_query[of_query["query"].to_numpy()])
    told = of_query.merge(every, on=names, how="left", indicator=True)["_merge"].to_numpy()
    of_query = of_query[told == "left_only"]
    app = np.concatenate([every["app"], of_query["app"]]).astype(np.int64)
    ids = [*[""] * len(every), *apps.query_ids[of_query["query"].to_numpy()]]
    return PROPERTIES.frame(
        {
            **apps.key(app),
            "query_id": np.array(ids, object),
            "name": np.concatenate([every["key"], of_query["key"]]).astype(object),
            "value": np.concatenate([every["value"], of_query["value"]]).astype(object),
        }
    )
