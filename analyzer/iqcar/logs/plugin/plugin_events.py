"""What the plugin noted beside its records: pools, rules that acted, executors, phases, samples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress
from math import isfinite, nan
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import msgspec
import numpy as np
import pandas as pd
from msgspec import Meta, Struct, field

from iqcar import tables as tb
from iqcar.errors import IqcarError
from iqcar.logs.events import lenient
from iqcar.logs.events.structs import Time
from iqcar.logs.events.task_structs import NOT_FITTING, PLUGIN
from iqcar.logs.text import redact_text

MAX_TEXT = 500
"""Characters kept of a name or reason; the plugin writes no more."""
MOST_SLOTS = 2**31
"""Bound of weights, shares and executors: Spark counts them in 32-bit integers."""
MOST_MS = 1e11
"""Three years: no execution compiles longer."""
PHASES = ("parsing", "analysis", "optimization", "planning", "compiling", "listeners")
KINDS = ("pool", "placement", "order")
OUTCOMES = ("accepted", "refused", "missing", "unreadable")
LOG_QUEUE, RULES_QUEUE = "eventLog", "iqcar"
"""Spark's queue of what it logs, and the plugin's own."""
MOST_DROPPED = 1e15
"""A larger count is damage."""


class _Pool(Struct):
    name: str = ""
    mode: str = ""
    weight: float = nan
    min_share: float = field(default=nan, name="minShare")
    cap: float = 0.0
    strict: bool = False


class _Scheduler(Struct, tag_field="Event", tag=f"{PLUGIN}Scheduler"):
    time: Time = field(default=nan, name="timeMs")
    pools: list[_Pool] = field(default_factory=list)


class _Target(Struct, tag_field="Event", tag=f"{PLUGIN}Executors"):
    time: Time = field(default=nan, name="timeMs")
    executors: Annotated[float, Meta(ge=0, lt=MOST_SLOTS)] = nan


class _Change(Struct):
    kind: str = ""
    rule: str = ""
    name: str = ""
    before: str = ""
    after: str = ""


class _Rules(Struct, tag_field="Event", tag=f"{PLUGIN}Rules"):
    time: Time = field(default=nan, name="timeMs")
    outcome: str = ""
    reason: str = ""
    changes: list[_Change] = field(default_factory=list)


class _Phase(Struct):
    name: str = ""
    start: Time = field(default=nan, name="startMs")
    end: Time = field(default=nan, name="endMs")


class _Phases(Struct, tag_field="Event", tag=f"{PLUGIN}Phases"):
    execution: int = field(default=-1, name="executionId")
    phases: list[_Phase] = field(default_factory=list)
    compiled: Annotated[float, Meta(ge=-1, lt=MOST_MS)] = field(default=-1.0, name="compileMs")

    def all(self) -> Iterator[_Phase]:
        """Yield the phases; compiling ends where the execution does."""
        for one in self.phases:
            yield one
            if one.name == "listeners" and self.compiled >= 0:
                yield _Phase("compiling", one.start - self.compiled, one.start)


class _Dropped(Struct, tag_field="Event", tag=f"{PLUGIN}Dropped"):
    queues: dict[str, Annotated[float, Meta(ge=0, lt=MOST_DROPPED)]] = field(default_factory=dict)


_decode_dropped = msgspec.json.Decoder(_Dropped).decode


def dropped_events(lines: Iterable[bytes]) -> dict[str, float]:
    """Count the events that Spark dropped of each queue, by the last of the plugin's raw events.

    Other events, and damaged ones, are passed over.
    """
    counts: dict[str, float] = {}
    for line in lines:
        try:
            counts.update(_decode_dropped(line).queues)
        except NOT_FITTING:
            continue
    return counts


_Event = _Scheduler | _Target | _Rules | _Phases
_decode = msgspec.json.Decoder(_Event).decode


def driver_tables(
    lines: Iterable[bytes], sql_rows: Mapping[int, int] = MappingProxyType({})
) -> dict[str, pd.DataFrame]:
    """Make the tables of the plugin's raw events on the driver.

    They are of application row 0. Other events, and damaged ones, are passed over.

    sql_rows : rows of SQL executions by their ids.
    """
    events: list[_Event] = []
    for line in lines:
        try:
            events.append(_decode(line))
        except NOT_FITTING:
            continue
    return {
        "pools": _pools([one for one in events if isinstance(one, _Scheduler)]),
        "rule_changes": _rule_changes([one for one in events if isinstance(one, _Rules)]),
        "executor_targets": _targets([one for one in events if isinstance(one, _Target)]),
        "driver_phases": _phases([one for one in events if isinstance(one, _Phases)], sql_rows),
    }


def _pools(events: list[_Scheduler]) -> pd.DataFrame:
    """Leave out pools without a name, and those with numbers that Spark cannot hold."""
    found = [
        (event.time, pool)
        for event in events
        for pool in event.pools
        if pool.name and 0 < pool.weight < MOST_SLOTS and not pool.min_share >= MOST_SLOTS
    ]
    return tb.POOLS.frame(
        {
            "app": [0.0] * len(found),
            "time_ms": [time for time, _ in found],
            "name": [redact_text(pool.name, MAX_TEXT) for _, pool in found],
            "mode": [redact_text(pool.mode, MAX_TEXT).upper() for _, pool in found],
            "weight": [pool.weight for _, pool in found],
            "min_share": [pool.min_share for _, pool in found],
            "cap": [pool.cap if 0 < pool.cap < MOST_SLOTS else nan for _, pool in found],
            "strict": [pool.strict for _, pool in found],
        }
    )


def _targets(events: list[_Target]) -> pd.DataFrame:
    """Leave out events without a time or a number; the others come by time."""
    found = [one for one in events if one.time == one.time and one.executors >= 0]
    found.sort(key=lambda one: one.time)
    return tb.EXECUTOR_TARGETS.frame(
        {
            "app": [0.0] * len(found),
            "time_ms": [one.time for one in found],
            "executors": [one.executors for one in found],
        }
    )


def _phases(events: list[_Phases], sql_rows: Mapping[int, int]) -> pd.DataFrame:
    """Leave out phases that nobody knows, without times, and of executions that are not known."""
    found = [
        (sql_rows[event.execution], one)
        for event in events
        if event.execution in sql_rows
        for one in event.all()
        if one.name in PHASES and one.end >= one.start
    ]
    return tb.DRIVER_PHASES.frame(
        {
            "app": [0.0] * len(found),
            "sql_execution": [row for row, _ in found],
            "phase": pd.Categorical([one.name for _, one in found], PHASES),
            "start_ms": [one.start for _, one in found],
            "end_ms": [one.end for _, one in found],
        }
    )


def _rule_changes(events: list[_Rules]) -> pd.DataFrame:
    """Leave out events without a time, and outcomes and kinds that nobody knows; by time."""
    found: list[tuple[_Rules, _Change]] = []
    for event in events:
        if event.outcome in OUTCOMES and event.time == event.time:
            changes = [change for change in event.changes if change.kind in KINDS]
            found += [(event, change) for change in changes or [_Change()]]
    found.sort(key=lambda row: row[0].time)
    texts = {
        name: [redact_text(getattr(change, name), MAX_TEXT) for _, change in found]
        for name in ("rule", "name", "before", "after")
    }
    return tb.RULE_CHANGES.frame(
        {
            "app": [0.0] * len(found),
            "time_ms": [event.time for event, _ in found],
            "outcome": [event.outcome for event, _ in found],
            "reason": [redact_text(event.reason, MAX_TEXT) for event, _ in found],
            "kind": [change.kind for _, change in found],
            **texts,
        }
    )


SAMPLES_EVENT = "org.iqcar.spark.IqcarEventSamples"
MAX_NAME = 500
"""Characters kept of a host's name."""
LARGEST = 1e18
"""A number beyond it is damage: it would be a size or a counter of no machine. Times are bounded
by :data:`iqcar.tables.LAST_PLAUSIBLE_MS`."""

DISK_READ, DISK_WRITE, DISK_BUSY_MS = 0, 1, 6
NET_IN, NET_OUT = 0, 1
_SUMS = {"disks": (DISK_READ, DISK_WRITE, DISK_BUSY_MS), "nets": (NET_IN, NET_OUT)}
"""Place of each sum over all devices among the counters of one."""
PROCESS_KIND, PROCESS_CPU_MS, PROCESS_RSS = 2, 3, 4
_OF_GROUPS = ("io", "memory")
"""Resources of which the pressure of a control group is read."""
CPU_MODES = {
    "cpu_user": ("user", "nice"),
    "cpu_system": ("system", "irq", "softirq"),
    "cpu_iowait": ("iowait",),
    "cpu_steal": ("steal",),
    "cpu_idle": ("idle",),
}
"""Column of ``samples`` → modes of the kernel in it; all modes together are all the time."""


def decode_samples(lines: Iterable[bytes]) -> dict[str, list[Any]]:
    """Read the samples in the plugin's events.

    lines: iterable of bytes; raw lines of an event log; those of other events are passed over, and
        so is what is damaged.

    Returns the columns of :data:`iqcar.tables.SAMPLES` but ``app``; ``host`` and ``executor`` hold
    names. One element per sample, in the order of the lines.
    """
    columns = no_samples()
    for line in lines:
        event = lenient.parse_object(line)
        if event.get("Event") != SAMPLES_EVENT:
            continue
        samples = [sample for sample in _list(event.get("samples")) if isinstance(sample, dict)]
        dropped = _number(event.get("dropped"))
        for row, sample in enumerate(samples):
            lost = dropped if row == 0 and isfinite(dropped) else 0
            add_sample(columns, sample, _text(event, "host"), _text(event, "executor"), lost)
    return columns


def no_samples() -> dict[str, list[Any]]:
    """Return the columns of no sample, to add some to."""
    return {name: [] for name in tb.SAMPLES.column_names() if name != "app"}


def add_sample(
    columns: dict[str, list[Any]],
    sample: Mapping[str, Any],
    host: str,
    executor: str = "",
    dropped: float = 0,
) -> None:
    """Add one sample to the columns, unless it does not say when it was taken."""
    time = _number(sample.get("t"))
    duration = _number(sample.get("dt_ms"))
    if not (0 < time < tb.LAST_PLAUSIBLE_MS and 0 < duration < tb.LAST_PLAUSIBLE_MS):
        return
    row: dict[str, Any] = {
        "host": lenient.encodable(host),
        "executor": lenient.encodable(executor),
        "time_ms": time,
        "duration_ms": duration,
        **_host(sample, duration),
        **_processes(sample),
        "own_cpu_ms": _number(sample.get("own_cpu_ms")),
        "dropped": int(dropped),
    }
    for name, values in columns.items():
        is_no_time = name.endswith("_ms") and row[name] > tb.LAST_PLAUSIBLE_MS
        values.append(nan if is_no_time else row[name])


def _host(sample: Mapping[str, Any], duration: float) -> dict[str, float]:
    cpu, memory, cgroup = (_dict(sample, part) for part in ("cpu", "mem", "cgroup"))
    disks, nets = (_devices(sample.get(part), _SUMS[part]) for part in _SUMS)
    psi = _dict(sample, "psi")
    has_cpu, has_disks, has_nets = bool(cpu), "disks" in sample, "nets" in sample
    busy = [_item(disk, DISK_BUSY_MS) for disk in disks.values()]
    listed = _list(cpu.get("cores"))
    return {
        "cores": _number(cpu.get("count", len(listed))) if has_cpu else nan,
        "busiest_core": _most(listed or [cpu.get("busiest")]),
        **{
            # A mode that took no time at all is left out of the line.
            name: sum(_number(cpu.get(mode, 0.0)) for mode in modes) if has_cpu else nan
            for name, modes in CPU_MODES.items()
        },
        "load1": _item(sample.get("load"), 0),
        "mem_total_bytes": _number(memory.get("total")),
        "mem_used_bytes": _number(memory.get("used")),
        "mem_available_bytes": _number(memory.get("available")),
        "disk_read_bytes": _sum(disks, DISK_READ) if has_disks else nan,
        "disk_write_bytes": _sum(disks, DISK_WRITE) if has_disks else nan,
        "disk_busy": min(_most(busy or [0.0]) / duration, 1.0) if has_disks else nan,
        "net_in_bytes": _sum(nets, NET_IN) if has_nets else nan,
        "net_out_bytes": _sum(nets, NET_OUT) if has_nets else nan,
        **{f"psi_{name}": _item(psi.get(name), 0) for name in ("cpu", "io", "memory")},
        **{f"stalled_{name}_ms": _item(psi.get(name), 1) for name in ("cpu", "io", "memory")},
        "cgroup_cpus": _number(cgroup.get("cpus")),
        "cgroup_mem_limit_bytes": _number(cgroup.get("mem_limit")),
        "cgroup_mem_used_bytes": _number(cgroup.get("mem_used")),
        "cgroup_throttled_ms": _number(cgroup.get("throttled_ms")),
        **{f"cgroup_stalled_{n}_ms": _number(cgroup.get(f"stalled_{n}_ms")) for n in _OF_GROUPS},
        "cgroup_read_bytes": _item(cgroup.get("io"), 0),
        "cgroup_write_bytes": _item(cgroup.get("io"), 1),
    }


def _devices(value: Any, places: Sequence[int]) -> dict[str, Any]:
    """Return each device's counters: of a list, which sums all devices, one of no name."""
    if not isinstance(value, list):
        return value if isinstance(value, dict) else {}
    counters = [0.0] * (max(places) + 1)
    for place, number in zip(places, value, strict=False):
        counters[place] = number
    return {"": counters}


def _processes(sample: Mapping[str, Any]) -> dict[str, float]:
    sums = sample.get("procs")
    if isinstance(sums, dict):
        return {
            f"{kind}_{name}": _item(sums.get(kind), place)
            for kind in ("jvm", "python")
            for place, name in enumerate(("cpu_ms", "rss_bytes"))
        }
    listed = [p for p in _list(sample.get("procs")) if isinstance(p, list)]
    found = {}
    for kind in ("jvm", "python"):
        own = [p for p in listed if len(p) > PROCESS_RSS and p[PROCESS_KIND] == kind]
        cpu, rss = ([_item(p, place) for p in own] for place in (PROCESS_CPU_MS, PROCESS_RSS))
        found[f"{kind}_cpu_ms"] = sum(cpu) if own else nan
        found[f"{kind}_rss_bytes"] = sum(rss) if own else nan
    return found


def _number(value: Any) -> float:
    """Return a plausible number of zero or more, else NaN."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return nan
    return float(value) if 0 <= value < LARGEST else nan


def _item(values: Any, place: int) -> float:
    return _number(values[place]) if isinstance(values, list) and len(values) > place else nan


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _dict(sample: Mapping[str, Any], part: str) -> dict[str, Any]:
    value = sample.get(part)
    return value if isinstance(value, dict) else {}


def _text(event: Mapping[str, Any], name: str) -> str:
    value = event.get(name)
    return value if isinstance(value, str) else ""


def _sum(devices: dict[str, Any], place: int) -> float:
    return sum(n for n in (_item(d, place) for d in devices.values()) if isfinite(n))


def _most(values: Any) -> float:
    return max((n for n in map(_number, _list(values)) if isfinite(n)), default=nan)


def samples_frame(
    columns: Mapping[str, list[Any]], app: int, hosts: dict[str, int], executors: Mapping[str, int]
) -> pd.DataFrame:
    """Build the ``samples`` table of one application.

    columns: from :func:`decode_samples`.
    app: row of the application; −1 for samples taken outside Spark.
    hosts: row of each host; a host that is not in it is added.
    executors: row of each executor id.
    """
    names = [redact_text(name, MAX_NAME) for name in columns["host"]]
    return tb.SAMPLES.frame(
        {
            **columns,
            "app": [app] * len(names),
            "host": [hosts.setdefault(name, len(hosts)) if name else tb.NONE for name in names],
            "executor": [executors.get(name, tb.NONE) for name in columns["executor"]],
        }
    )


def read_sample_files(paths: Sequence[str | Path]) -> dict[str, list[Any]]:
    """Read files that ``iqcar sample`` wrote; damaged lines are left out.

    The result is as :func:`iqcar.logs.plugin.plugin_events.decode_samples`.

    Raises IqcarError if a file cannot be read or holds no sample at all.
    """
    columns = no_samples()
    for path in paths:
        before = len(columns["host"])
        try:
            with Path(path).open("rb") as file:
                for line in file:
                    sample = lenient.parse_object(line)
                    host = sample.get("host")
                    if isinstance(host, str):
                        add_sample(columns, sample, host)
        except OSError as error:
            raise IqcarError(f"cannot be read: {error.strerror}", str(path)) from error
        if len(columns["host"]) == before:
            raise IqcarError("holds no samples", str(path), "give a file of `iqcar sample`")
    return columns


def join_samples(tables: tb.Tables, paths: Sequence[str | Path]) -> tb.Tables:
    """Add samples taken outside Spark to the tables.

    tables: from :func:`iqcar.logs.read_logs`.
    paths: files of ``iqcar sample``.

    Returns ``samples`` with a row for each that was taken while an application ran. A host counts
    as one of Spark's if the names are equal but for case, or up to the first dot; any other is
    added to ``hosts``.

    Raises IqcarError if a file cannot be read or holds no sample at all.
    """
    columns = read_sample_files(paths)
    time = np.array(columns["time_ms"], np.float64)
    since = time - np.array(columns["duration_ms"], np.float64)
    during = np.zeros(len(time), bool)
    for first, last in tables.applications[["start_ms", "end_ms"]].itertuples(index=False):
        during |= (time >= first) & (since <= last)
    columns = {name: list(compress(values, during)) for name, values in columns.items()}
    known = tb.texts(tables.hosts, "host")
    spelt = {_short(name): name for name in reversed(known)}
    spelt.update({name.lower(): name for name in known})
    columns["host"] = [
        spelt.get(name.lower(), spelt.get(_short(name), name)) for name in columns["host"]
    ]
    hosts = {name: row for row, name in enumerate(known)}
    added = samples_frame(columns, tb.NONE, hosts, {})
    both = [frame for frame in (tables.samples, added) if len(frame)]
    samples = pd.concat(both, ignore_index=True) if both else tables.samples
    return tables.with_(hosts=tb.HOSTS.frame({"host": list(hosts)}), samples=samples)


def _short(name: str) -> str:
    """Return the name up to its first dot; an address as it is."""
    return name.lower() if name.replace(".", "").isdigit() else name.lower().split(".", 1)[0]
