"""Says what was read and what hosts and a resource manager did: logs, evidence, times, settings."""

from __future__ import annotations

from collections import Counter
from math import isfinite
from typing import Any

import numpy as np

from iqcar.base import limits
from iqcar.base.units import (
    REQUEST_NAMES,
    duration,
    moment,
    percent,
    printable,
    resource_name,
    short,
)
from iqcar.causes.stragglers.features import sampled_quantities
from iqcar.diagnosis import Diagnosis
from iqcar.enums import EVIDENCES, REQUESTS
from iqcar.logs.find.resource_manager import YarnApplication
from iqcar.logs.text import redact_text
from iqcar.model.doubts import coverage
from iqcar.model.queries.gaps import gaps_of
from iqcar.model.waits.columns import evidence_column
from iqcar.model.waits.pending import Pending, YarnWaits
from iqcar.say.section import Section, columns
from iqcar.tables import Tables, texts
from iqcar.tables.arrays import Floats
from iqcar.version import __version__

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

    Returns arrays by host row: slots (share of its executors' slot time that tasks held), cpu and
    cpu_most (share of the processors that was busy: the mean, and nine tenths of the time no more),
    disk (share of the time the busiest disk was busy), network (bytes per second, in and out).
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


_FIRST = {"failed": 0, "truncated": 1, "in_progress": 2, "complete": 3}
_COUNTED = (
    ("tasks", "tasks"),
    ("stages", "stages"),
    ("hosts", "hosts"),
    ("skipped_events", "unknown events"),
    ("malformed_lines", "malformed lines"),
)


def inputs_section(diagnosis: Diagnosis) -> Section:
    """Show what became of each event log, those that could not be read first."""
    rows = sorted(diagnosis.tables.inputs.to_dict("records"), key=lambda row: _FIRST[row["status"]])
    cells = tuple(
        (
            _shown(row["path"]),
            str(row["status"]).replace("_", " "),
            *(_shown(row[name]) for name in ("message", "application_name", "application_id")),
            _shown(row["spark_version"]) or "not recorded",
            *(int(row[name]) for name, _ in _COUNTED),
        )
        for row in rows
    )
    covered, recorded = coverage_section(diagnosis), len(diagnosis.tables.task_records) > 0
    return Section(
        "inputs",
        "Event logs",
        sentence=_sentence(Counter(row["status"] for row in rows), covered, recorded),
        columns=columns(
            "log | status | message | application:name | id:name | Spark",
            *(f"{title}:count" for _, title in _COUNTED),
        ),
        rows=cells,
        caption="What became of each event log",
    ).first(limits.MOST_INPUTS, "more, all read whole or as those above")


def _shown(value: object) -> str:
    return printable(redact_text(str(value)))


def coverage_section(diagnosis: Diagnosis) -> Section:
    """Show how well each wait is known: shares of all task time by evidence, which sum to 1."""
    waits = diagnosis.waits
    life = np.nan_to_num(waits["duration_ms"].to_numpy(np.float64))
    total, rows = life.sum(), []
    for request in REQUESTS if total > 0 else ():
        codes = waits[evidence_column(request)].to_numpy(np.int64)
        shares = np.bincount(codes, life, minlength=len(EVIDENCES)) / total
        name = (REQUEST_NAMES[request], resource_name(request.resource))
        rows.append((*name, *(float(share) for share in shares[::-1])))
    recorded = len(diagnosis.tables.task_records)
    by_plugin = f"; the plugin recorded {recorded:,} tasks" if recorded else ""
    taken = coverage(diagnosis.tables)
    if taken < 1:
        by_plugin += f" and took {percent(taken)} of the wanted samples of their waits"
    return Section(
        "coverage",
        "How well each wait is known",
        columns=columns(
            "waiting for:name | resource", *(f"{one}:share" for one in reversed(EVIDENCES))
        ),
        rows=tuple(rows),
        caption=f"Share of all task time by the evidence of each wait{by_plugin}",
        notes=tuple(f"{one}: {one.sentence}" for one in reversed(EVIDENCES)) if rows else (),
    )


def _sentence(counts: Counter[str], covered: Section, recorded: bool) -> str:
    whole = sum(counts.values())
    logs = "1 event log was" if whole == 1 else f"{whole:,} event logs were"
    bad = [
        f"{counts[status]:,} {word}"
        for status, word in (
            ("failed", "could not be read"),
            ("truncated", "incomplete"),
            ("in_progress", "without an end"),
        )
        if counts[status]
    ]
    text = f"{logs} read whole." if not bad else f"{logs} given: {', '.join(bad)}."
    if not covered.rows:
        return text + " No task ended in them."
    measured = sum(row[2] for row in covered.rows) / len(covered.rows)
    if measured > 0:
        text += f" {percent(measured)} of all waits were measured by the plugin."
    elif recorded:
        text += " The plugin ran, but measured no wait: the doubts say why."
    else:
        text += (
            " No wait was measured: record with the iqcar plugin (iqcar conf) to see waits for "
            "memory and to tell the processor from locks."
        )
    return text


def timeline_sentence(tables: Tables) -> str:
    """Say how long the queries ran, how many at once, and what to do about it."""
    queries = tables.queries
    start = queries["start_ms"].to_numpy(np.float64)
    end = queries["end_ms"].to_numpy(np.float64)
    known = np.isfinite(start) & np.isfinite(end) & (end > start)
    if not known.any():
        return "No query ran for a time that is known."
    start, end = start[known], end[known]
    gaps = gaps_of(tables)
    whole = float(end.max() - start.min()) - sum(gap.left_out_ms for gap in gaps)
    # A query that starts the moment another ends does not run at once with it.
    times = np.concatenate([end, start])
    steps = np.repeat([-1, 1], len(start))
    order = np.argsort(times, kind="stable")
    running = np.cumsum(steps[order])
    most = int(running.max())
    count = len(start)
    ran = "1 query ran" if count == 1 else f"{count:,} queries ran"
    if gaps:
        apart = duration(max(gap.left_out_ms for gap in gaps))
        ran = f"{ran}, in {len(gaps) + 1} times up to {apart} apart (left out here),"
    if most <= 1:
        text = f"{ran} within {duration(whole)}, never two at once: none could be in another's way."
        return text + " Choose one to see when its tasks waited."
    peak = float(times[order][int(running.argmax())])
    when = (
        f"at {moment(peak)}" if gaps else f"{duration(peak - start.min())} after the first started"
    )
    return (
        f"{ran} within {duration(whole)}, at most {most:,} at once ({when}). Choose one to see "
        "when its tasks waited; what need not run at the busiest time can run at another."
    )


def settings_rows(diagnosis: Diagnosis) -> list[tuple[str, str, str]]:
    """Return versions and settings: name, value, and what the value means."""
    applications, settings = diagnosis.tables.applications, diagnosis.settings
    only = "Only those on the critical path." if settings.critical_path else "All of them."
    return [
        ("iqcar", __version__, ""),
        ("Spark", _distinct(applications["spark_version"].tolist()), ""),
        ("scheduler of the applications", _distinct(applications["scheduler_mode"].tolist()), ""),
        ("what counts as one query", str(settings.query_by), settings.query_by.sentence),
        ("target stages", "", only),
        ("targets, paths and rules shown", str(settings.top), ""),
    ]


def _distinct(values: list[Any]) -> str:
    every = (printable(str(value)) for value in dict.fromkeys(values) if value)
    return ", ".join(every) or "not recorded"


NAME_WIDTH = 40
REASON_WIDTH = 160
"""Characters shown of a name, and of what the manager says of an application that waits."""
MOSTLY_HELD = 0.5
"""Share of the memory of the nodes from which on the cluster, not a queue's limit, was short."""


def yarn_section(yarn: YarnWaits | None, most: int) -> Section:
    """Show who waited for a first container, and who held containers meanwhile."""
    if yarn is None:
        return Section("yarn", "Waits before applications ran")
    return Section(
        "yarn",
        "Waits before applications ran",
        sentence=yarn_sentence(yarn),
        columns=columns(
            "application:name | queue:name | waited:time | state | of the cluster held:share",
            "who held containers:times | their queues:times",
        ),
        rows=tuple(map(_row, yarn.pending[:most])),
        caption="Waits for the container of an application's master (5 s and more)",
        notes=tuple(_notes(yarn, most)),
    )


def yarn_sentence(yarn: YarnWaits) -> str:
    """Say which application waited longest, for whom."""
    if not yarn.pending:
        return f"No application that {_place(yarn)} knows waited long for its first container."
    worst = yarn.pending[0]
    one = worst.application
    said = f"{_name(one)} (queue {_short(one.queue)}) "
    said += "has been waiting" if one.waits else "waited"
    said += f" {duration(worst.wait_ms)} for its first container"
    if worst.holders:
        first = worst.holders[0]
        other = first.application
        said += (
            f", {duration(first.lost_ms)} of that put down to {_name(other)} (queue "
            f"{_short(other.queue)}), which held most"
        )
    else:
        said += "; no other application is known to have held containers: it started slowly, or "
        said += "its queue has a limit"
    if worst.holders and worst.held < MOSTLY_HELD:
        said += f"; the containers of others took {percent(worst.held)} of the cluster's memory: "
        said += "look at the limits of its queue, too"
    more = len(yarn.pending) - 1
    others = f" {more:,} more waited." if more > 1 else " Another one waited." if more else ""
    return f"{said}.{others}"


def _row(one: Pending) -> tuple[object, ...]:
    queues: Counter[str] = Counter()
    names: Counter[str] = Counter()
    for holder in one.holders:
        queues[_short(holder.application.queue)] += holder.lost_ms  # type: ignore[assignment]
        names[_name(holder.application)] += holder.lost_ms  # type: ignore[assignment]
    rest = {"others": one.rest_ms} if one.rest_ms else {}
    state = "waits still" if one.application.waits else "has no log here" if one.app < 0 else ""
    return (
        _name(one.application),
        _short(one.application.queue),
        one.wait_ms,
        state,
        one.held if one.held == one.held else None,
        {**names, **rest},
        {**queues, **rest},
    )


def _notes(yarn: YarnWaits, most: int) -> list[str]:
    notes = []
    if (left := len(yarn.pending) - most) > 0:
        notes.append(f"{left:,} more in the result of --json.")
    for one in yarn.pending[:most]:
        if one.application.waits and one.application.diagnostics:
            said = short(redact_text(one.application.diagnostics), REASON_WIDTH)
            notes.append(f"{_name(one.application)} waits still: {said.rstrip('.')}.")
    if yarn.pending:
        notes.append(
            "No query ran in these waits, so they are in no query's lost time. Memory that "
            "applications held is the resource manager's sum, spread over time as their logs say, "
            "else evenly."
        )
    if isfinite(yarn.memory_mb + yarn.cores + yarn.nodes):
        count = "1 node" if yarn.nodes == 1 else f"{yarn.nodes:,.0f} nodes"
        notes.append(
            f"{_place(yarn)} has {count} now: {yarn.memory_mb / 1024:,.0f} GiB, "
            f"{yarn.cores:,.0f} cores."
        )
    if yarn.unknown:
        what = "1 application" if yarn.unknown == 1 else f"{yarn.unknown:,} applications"
        notes.append(f"{_place(yarn)} does not know {what} of these logs (any more).")
    return notes


def _place(yarn: YarnWaits) -> str:
    return printable(yarn.url.partition("://")[2])


def _name(one: YarnApplication) -> str:
    return _short(one.name) or _short(one.application_id)


def _short(text: str) -> str:
    return short(redact_text(text), NAME_WIDTH)
