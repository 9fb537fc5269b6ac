"""Groups logs whose applications met on hosts: those that could be in each other's way."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import networkx as nx

from iqcar.logs.decode.streams import DamageError, decoded_pieces
from iqcar.logs.find.layouts import EventLog
from iqcar.logs.find.storage import open_part
from iqcar.logs.log_summary import peek, sensible
from iqcar.logs.text import redact_text

MOST_TASKS = 1_000_000
"""Tasks of a group at most: their diagnosis takes some 3 GB of an executor's memory."""
MOST_HOSTS = 10_000
"""Hosts kept of one log."""
TAIL_BYTES = 64 << 10
"""Last bytes of a log among which the last time is looked for (64 KiB)."""
_OVERLAP = 400
"""Bytes that are looked at again with the next piece: more than any of the words below takes."""
_HOST = re.compile(rb'"Host":\s?"([^"\\]{1,255})",\s?"(?:Total Cores|Locality)"')
"""Host of an executor or a task; a driver's, on which nobody meets, stands before a port."""
_TASK = b'SparkListenerTaskEnd"'
_TIME = re.compile(rb'"(?:Timestamp|Finish Time|Completion Time)":\s?(\d{13})[,}]')


class Ran(NamedTuple):
    """Where and when an application ran.

    hosts: names.
    start_ms, end_ms: −∞ and ∞ where unknown.
    tasks: how many ended.
    """

    hosts: frozenset[str]
    start_ms: float
    end_ms: float
    tasks: int


def ran_of(log: EventLog) -> Ran:
    """Look through a log without decoding its events: a fraction of the time of reading it.

    Damage ends the look; whoever reads the log says so. Raises IqcarError if a URL needs a package
    that is not installed.
    """
    first = peek(log)
    hosts: set[bytes] = set()
    tasks, tail = 0, b""
    for part in log.parts:
        held = b""
        with suppress(DamageError), open_part(part) as stream:
            for piece in decoded_pieces(stream):
                text = held + piece
                tasks += text.count(_TASK) - held.count(_TASK)
                if len(hosts) < MOST_HOSTS:
                    hosts.update(_HOST.findall(text))
                held, tail = text[-_OVERLAP:], (tail + piece)[-TAIL_BYTES:]
    last = max((sensible(float(time)) for time in _TIME.findall(tail)), default=math.nan)
    ends = (time for time in (first.end_ms, first.last_ms, last) if math.isfinite(time))
    names = {redact_text(host.decode("utf-8", "replace")) for host in hosts}
    start = first.start_ms if math.isfinite(first.start_ms) else -math.inf
    return Ran(first.hosts | names, start, next(ends, math.inf), tasks)


def meeting_groups(
    ran: Mapping[int, Ran], most_tasks: int = MOST_TASKS
) -> tuple[list[list[int]], int]:
    """Group applications that shared a host at the same time, directly or through others.

    A group of more tasks than allowed is cut in the order in which its applications started: what
    applications of different parts did to each other is lost.

    ran: where and when each application ran, by the number of its log.
    most_tasks: tasks of a group at most; a larger application is a group by itself.

    Returns the logs of each group, the group of most tasks first; and how many cuts were made.
    """
    met = nx.Graph()
    met.add_nodes_from(ran)
    started = sorted(ran, key=lambda log: (ran[log].start_ms, log))
    on_host: defaultdict[str, list[int]] = defaultdict(list)
    for log in started:
        for host in ran[log].hosts:
            on_host[host].append(log)
    for logs in on_host.values():
        before, until = logs[0], -math.inf
        for log in logs:
            if ran[log].start_ms < until:
                met.add_edge(before, log)
            before, until = log, max(until, ran[log].end_ms)
    order = {log: row for row, log in enumerate(started)}
    groups: list[list[int]] = []
    cuts = 0
    for members in nx.connected_components(met):
        parts = _cut(sorted(members, key=order.__getitem__), ran, most_tasks)
        groups += parts
        cuts += len(parts) - 1
    return sorted(groups, key=lambda group: -sum(ran[log].tasks for log in group)), cuts


def _cut(logs: Sequence[int], ran: Mapping[int, Ran], most_tasks: int) -> list[list[int]]:
    parts: list[list[int]] = []
    room = 0
    for log in logs:
        if not parts or ran[log].tasks > room:
            parts.append([])
            room = most_tasks
        parts[-1].append(log)
        room -= ran[log].tasks
    return [sorted(part) for part in parts]
