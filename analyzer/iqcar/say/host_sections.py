"""Says where time was lost, to which resource, and how busy hosts were."""

from __future__ import annotations

import numpy as np

from iqcar.base.units import duration, percent, printable, resource_name
from iqcar.causes.stragglers.host_features import sampled_quantities
from iqcar.diagnosis import Diagnosis
from iqcar.say.section import Section, columns
from iqcar.tables import Tables, texts
from iqcar.tables.arrays import Floats

STANDS_OUT = 2.0
"""A host on which more than twice the mean was lost, slots apart, is called slow."""
LEAST_LOST_SHARE = 0.01
"""Share of all lost time below which no host stands out, however much it exceeds the mean."""


def hosts_section(diagnosis: Diagnosis) -> Section:
    """Show where time was lost, and how busy each host was."""
    tables = diagnosis.tables
    use, names = utilisation(tables), texts(tables.hosts, "host")
    number = {name: row for row, name in enumerate(names)}
    ran = np.bincount(np.maximum(tables.tasks["host"].to_numpy(np.int64), 0), minlength=len(names))
    nodes = diagnosis.graph.slow_nodes().to_dict("records")
    listed = {row["host"] for row in nodes}
    quiet = {"lost_ms": 0.0, "share": 0.0, "slots_lost_ms": 0.0, "resource": ""}
    nodes += [{"host": name, **quiet} for name in names if name not in listed and ran[number[name]]]
    sampled = bool(len(tables.samples))
    shown = ("slots", "cpu", "cpu_most", "disk", "network") if sampled else ("slots",)
    rows = tuple(
        (
            row["host"],
            row["lost_ms"],
            row["share"],
            row["slots_lost_ms"],
            resource_name(row["resource"]) if row["resource"] else "",
            int(ran[number[row["host"]]]) if row["host"] in number else None,
            *(_known(use[name], number.get(row["host"], -1)) for name in shown),
        )
        for row in nodes
    )
    caption = "Where time was lost, and how busy each host was"
    if not sampled:
        caption += "; processors, disks and network were not recorded"
        caption += "" if len(tables.task_records) else " (the iqcar plugin records them)"
    busy = [
        "+CPU busy:share",
        "+CPU at most (90 %):share",
        "+disk busy:share",
        "+network:rate",
    ]
    return Section(
        "hosts",
        "Where time was lost",
        columns=columns(
            "host:name | lost there:time | of all lost time:share | of it for slots:time",
            "mostly for | +tasks:count | +slots held:share",
            *(busy if sampled else []),
        ),
        rows=rows,
        caption=caption,
    )


def resources_and_hosts_sentence(resources: Section, hosts: Section) -> str:
    """Say to which resource most was lost, and whether one host stands out."""
    if not resources.rows:
        return "No resource was short: no query lost time that could be measured."
    name, lost, share, *_ = resources.rows[0]
    text = f"Most time was lost to {name}: {duration(lost)}, {percent(share)} of all that was lost."
    bound = {printable(row[0]): max(row[1] - row[3], 0.0) for row in hosts.rows}
    total = sum(row[1] for row in hosts.rows)
    if len(bound) == 1:
        return text + f" All of it was lost on one host, {next(iter(bound))}."
    worst = max(bound, key=lambda host: bound[host])
    mean = sum(bound.values()) / len(bound)
    if bound[worst] > max(STANDS_OUT * mean, LEAST_LOST_SHARE * total):
        return text + (
            f" {worst} stands out: {duration(bound[worst])} were lost there apart from slots, "
            f"{bound[worst] / mean:.1f} times the mean of {len(bound)} hosts. "
            "Look at its disks, network and neighbours."
        )
    return text + f" None of {len(bound)} hosts stands out."


def _known(values: Floats, row: int) -> float | None:
    return float(values[row]) if row >= 0 and np.isfinite(values[row]) else None


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
