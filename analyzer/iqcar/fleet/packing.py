"""Assigns logs and jobs to Spark tasks, and groups logs that share hosts."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from iqcar.causes.topics.jobs import Jobs

ENOUGH_BYTES = 32_000_000
"""Stored bytes that are worth a task: they take about a second, and a task 0.02 s of Java beside
it, once for reading and once for handing on what was read."""
MOST_TASKS = 10_000
"""Tasks of one Spark stage at most; its driver handles some thousands a minute."""


def pack_by_size(sizes: Sequence[int], cores: int) -> list[list[int]]:
    """Share logs out to tasks: a large log alone, small ones together, the largest first.

    Parameters
    ----------
    sizes : stored bytes of each log
    cores : so many tasks can run at once; they are given work if there are as many logs

    Returns rows of the logs of each task; every log once.
    """
    order = sorted(range(len(sizes)), key=lambda row: (-sizes[row], row))
    large = [row for row in order if sizes[row] >= ENOUGH_BYTES]
    small = order[len(large) :]
    rest = sum(sizes[row] for row in small)
    tasks = [[row] for row in large]
    if small:
        count = max(1, min(len(small), in_rounds(-(-rest // ENOUGH_BYTES), cores)))
        tasks += even_shares([max(sizes[row], 1) for row in small], count, small)
    if len(tasks) > MOST_TASKS:
        sizes_of_tasks = [sum(sizes[row] for row in task) for task in tasks]
        shares = even_shares(sizes_of_tasks, MOST_TASKS, list(range(len(tasks))))
        tasks = [[row for task in share for row in tasks[task]] for share in shares]
    return tasks


def in_rounds(count: int, cores: int) -> int:
    """Return how many tasks of equal size keep all cores busy to the end: this many, or more."""
    return max(-(-count // cores), 1) * cores


def even_shares(weights: Sequence[float], count: int, what: Sequence[int]) -> list[list[int]]:
    """Share things out evenly by weight, the heaviest first to whoever has least."""
    shares: list[list[int]] = [[] for _ in range(count)]
    least = [(0.0, number) for number in range(count)]
    for position in sorted(range(len(what)), key=lambda p: (-weights[p], p)):
        weight, number = heapq.heappop(least)
        shares[number].append(what[position])
        heapq.heappush(least, (weight + weights[position], number))
    return [share for share in shares if share]


def bundles_of_groups(
    groups: Mapping[int, int], tasks: Mapping[int, int], most: int, least: int
) -> dict[int, int]:
    """Bundle small groups: what each work on tables costs at least is then paid once for several.

    Parameters
    ----------
    groups : group of each log, by its number
    tasks : tasks of each log
    most : tasks of a bundle of several groups at most
    least : bundles at least, if there are as many groups

    Returns the bundle of each log, numbered from 0 in the order of the first log of each.
    """
    of_group: dict[int, int] = {}
    for log, group in groups.items():
        of_group[group] = of_group.get(group, 0) + tasks[log]
    room = min(most, -(-sum(of_group.values()) // max(least, 1)))
    bundle: dict[int, int] = {}
    number, filled = -1, room
    for group in sorted(of_group):
        if number < 0 or filled + of_group[group] > room:
            number, filled = number + 1, 0
        bundle[group] = number
        filled += of_group[group]
    return {log: bundle[group] for log, group in groups.items()}


def together(hosts: Mapping[int, Sequence[str]]) -> dict[int, int]:
    """Put logs together that share a host, directly or through others.

    Hosts serve several applications, so their processors, disks, networks, clocks and samples
    tell about all of them; logs of different hosts have nothing to tell about each other.

    Parameters
    ----------
    hosts : names of the hosts of each log, by its number

    Returns the group of each log, numbered from 0 in the order of the first log of each.
    """
    leader = {log: log for log in hosts}

    def lead(log: int) -> int:
        while leader[log] != log:
            leader[log] = leader[leader[log]]
            log = leader[log]
        return log

    first_on: dict[str, int] = {}
    for log in sorted(hosts):
        for host in hosts[log]:
            first, second = sorted((lead(log), lead(first_on.setdefault(host, log))))
            leader[second] = first
    groups: dict[int, int] = {}
    return {log: groups.setdefault(lead(log), len(groups)) for log in sorted(hosts)}


BUNDLE_TASKS = 20_000
"""Tasks of one bundle of jobs: base learners take some tenths of a second for them."""


def bundles(jobs: Jobs, most: int = BUNDLE_TASKS) -> Iterator[Jobs]:
    """Cut jobs into bundles of at most so many tasks; a job that is larger is one by itself."""
    first = 0
    for job in range(len(jobs)):
        if job + 1 == len(jobs) or jobs.starts[job + 2] - jobs.starts[first] > most:
            part = slice(int(jobs.starts[first]), int(jobs.starts[job + 1]))
            jobs_of_it = slice(first, job + 1)
            yield replace(
                jobs,
                metrics=jobs.metrics[part],
                latency_ms=jobs.latency_ms[part],
                median_ms=jobs.median_ms[jobs_of_it],
                starts=jobs.starts[first : job + 2] - jobs.starts[first],
                stage=jobs.stage[jobs_of_it],
                app=jobs.app[jobs_of_it],
                query=jobs.query[jobs_of_it],
            )
            first = job + 1
