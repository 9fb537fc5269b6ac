"""Hosts and resources: where time was lost, to which resource, and how busy hosts were."""

from __future__ import annotations

from typing import Any

import numpy as np

from iqcar.base import limits
from iqcar.base.units import duration, percent, printable, resource_name
from iqcar.causes.stragglers.host_features import sampled_quantities
from iqcar.diagnosis import Diagnosis
from iqcar.enums import Resource
from iqcar.rules.vocabulary.lost_time import advice_for
from iqcar.show.pictures.executors import MOST_CLUSTERS, cluster_slots
from iqcar.tables import Tables, texts
from iqcar.tables.arrays import Floats, Ints

STANDS_OUT = 2.0
"""A host on which more than twice the mean was lost, slots apart, is called slow."""
LEAST_LOST_SHARE = 0.01
"""Share of all lost time below which no host stands out, however much it exceeds the mean."""


def hosts_section(diagnosis: Diagnosis) -> dict[str, Any]:
    """Lay out hot resources, slow nodes and utilisation.

    Returns
    -------
    dict
        sentence; resources and hosts: rows for tables, the largest loss first; left_out: hosts
        beyond the table; sampled: whether any host was sampled; recorded: whether the plugin ran;
        holders: applications of shared clusters with the slots they held, and the part of them
        that was idle.
    """
    hot = diagnosis.graph.hot_resources()
    resources = [
        {
            "resource": str(row["resource"]),
            "name": resource_name(row["resource"]),
            "sentence": Resource(row["resource"]).sentence,
            "lost_ms": float(row["lost_ms"]),
            "share": float(row["share"]),
            "targets": int(row["targets"]),
        }
        for row in hot.to_dict("records")
        if row["lost_ms"] > 0
    ]
    use = utilisation(diagnosis.tables)
    names = texts(diagnosis.tables.hosts, "host")
    rows = {name: number for number, name in enumerate(names)}
    nodes = diagnosis.graph.slow_nodes().to_dict("records")
    listed = {row["host"] for row in nodes}
    ran = np.bincount(
        np.maximum(diagnosis.tables.tasks["host"].to_numpy(np.int64), 0), minlength=len(names)
    )
    others = [name for name in names if name not in listed and ran[rows[name]]]
    nodes += [
        {"host": name, "lost_ms": 0.0, "share": 0.0, "slots_lost_ms": 0.0, "resource": ""}
        for name in others
    ]
    hosts = [_host(row, rows.get(row["host"], -1), use, ran) for row in nodes]
    return {
        "sentence": _sentence(resources, hosts),
        "advice": advice_for(str(resources[0]["resource"])) if resources else "",
        "resources": resources,
        "hosts": hosts[: limits.MOST_HOST_ROWS],
        "left_out": max(0, len(hosts) - limits.MOST_HOST_ROWS),
        "sampled": bool(len(diagnosis.tables.samples)),
        "recorded": bool(len(diagnosis.tables.task_records)),
        "series": bool(len(diagnosis.tables.tasks)),
        "holders": _holders(diagnosis),
    }


def _holders(diagnosis: Diagnosis) -> list[dict[str, Any]]:
    """Return the mean number of slots that each application of a shared cluster held."""
    return [
        {
            "name": name,
            "slots": float((busy + idle).mean()),
            "idle": float(idle.sum() / (busy + idle).sum()),
        }
        for cluster in cluster_slots(diagnosis.tables, diagnosis.waits)[:MOST_CLUSTERS]
        for name, busy, idle in zip(cluster.plain_names, cluster.busy, cluster.idle, strict=True)
    ]


def utilisation(tables: Tables) -> dict[str, Floats]:
    """Compute how busy each host was, as shares or bytes per second; NaN where not recorded.

    Returns
    -------
    dict
        Arrays by host row: slots (share of its executors' slot time that tasks held), cpu and
        cpu_most (share of the processors that was busy: the mean, and nine tenths of the time no
        more), disk (share of the time the busiest disk was busy), network (bytes per second, in
        and out).
    """
    n = len(tables.hosts)
    found = {name: np.full(n, np.nan) for name in ("slots", "cpu", "cpu_most", "disk", "network")}
    found["slots"] = _slots_held(tables, n)
    samples = tables.samples
    if len(samples):
        with np.errstate(divide="ignore", invalid="ignore"):
            values = sampled_quantities(samples)
        host = samples["host"].to_numpy(np.int64)
        weight = samples["duration_ms"].to_numpy(np.float64)
        for row in np.unique(host[(host >= 0) & (host < n)]).tolist():
            mine = host == row
            busy = values["host_cpu"][mine]
            found["cpu"][row] = _mean(busy, weight[mine])
            known = busy[np.isfinite(busy)]
            found["cpu_most"][row] = np.quantile(known, 0.9) if len(known) else np.nan
            found["disk"][row] = _mean(values["host_disk"][mine], weight[mine])
            found["network"][row] = _mean(values["host_network"][mine], weight[mine])
    return found


def _slots_held(tables: Tables, n: int) -> Floats:
    """Share of its executors' slot time that tasks held, for each host."""
    executors, tasks, apps = tables.executors, tables.tasks, tables.applications
    offered = np.zeros(n)
    if len(executors):
        app = executors["app"].to_numpy(np.int64)
        start, end = apps["start_ms"].to_numpy(np.float64), apps["end_ms"].to_numpy(np.float64)
        added = executors["added_ms"].to_numpy(np.float64)
        removed = executors["removed_ms"].to_numpy(np.float64)
        since = np.where(np.isfinite(added), added, start[app])
        until = np.where(np.isfinite(removed), removed, end[app])
        room = executors["cores"].to_numpy(np.float64) * np.maximum(until - since, 0)
        host = executors["host"].to_numpy(np.int64)
        np.add.at(offered, host[host >= 0], room[host >= 0])
    host = tasks["host"].to_numpy(np.int64)
    here = host >= 0
    cpus = apps["task_cpus"].to_numpy(np.float64)
    life = (tasks["finish_ms"] - tasks["launch_ms"]).to_numpy(np.float64)
    held = np.nan_to_num(life * cpus[tasks["app"].to_numpy(np.int64)]) if len(tasks) else life
    busy = np.bincount(host[here], held[here], minlength=n)
    # An executor's cores that are not recorded make the whole host's share unknown.
    with np.errstate(divide="ignore", invalid="ignore"):
        share: Floats = np.where(offered > 0, np.minimum(busy / offered, 1.0), np.nan)
    return share


def _mean(values: Floats, weight: Floats) -> float:
    known = np.isfinite(values) & np.isfinite(weight) & (weight > 0)
    return float(np.average(values[known], weights=weight[known])) if known.any() else np.nan


def _host(row: dict[Any, Any], number: int, use: dict[str, Floats], ran: Ints) -> dict[str, Any]:
    shares = {
        name: (float(values[number]) if number >= 0 and np.isfinite(values[number]) else None)
        for name, values in use.items()
    }
    return {
        "name": printable(row["host"]),
        "tasks": int(ran[number]) if number >= 0 else None,
        "lost_ms": float(row["lost_ms"]),
        "share": float(row["share"]),
        "slots_lost_ms": float(row["slots_lost_ms"]),
        "bound_ms": max(float(row["lost_ms"]) - float(row["slots_lost_ms"]), 0.0),
        "resource": resource_name(row["resource"]) if row["resource"] else "",
        **shares,
    }


def _sentence(resources: list[dict[str, Any]], hosts: list[dict[str, Any]]) -> str:
    if not resources:
        return "No resource was short: no query lost time that could be measured."
    first = resources[0]
    text = (
        f"Most time was lost to {first['name']}: {duration(first['lost_ms'])}, "
        f"{percent(first['share'])} of all that was lost."
    )
    bound = [host["bound_ms"] for host in hosts]
    total = sum(host["lost_ms"] for host in hosts)
    if len(hosts) == 1:
        return text + f" All of it was lost on one host, {hosts[0]['name']}."
    worst = max(hosts, key=lambda host: host["bound_ms"])
    mean = sum(bound) / len(bound)
    if worst["bound_ms"] > max(STANDS_OUT * mean, LEAST_LOST_SHARE * total):
        return text + (
            f" {worst['name']} stands out: {duration(worst['bound_ms'])} were lost there apart "
            f"from slots, {worst['bound_ms'] / mean:.1f} times the mean of {len(hosts)} hosts. "
            "Look at its disks, network and neighbours."
        )
    return text + f" None of {len(hosts)} hosts stands out."
