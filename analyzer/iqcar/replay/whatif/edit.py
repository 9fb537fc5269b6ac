"""Interventions on queries and tasks: pure functions that edit what is given, never a duration.

Each cuts the arrows into what it sets (Pearl's *do*): who is there, when queries start, shares, and
what tasks need. Slots and devices: :mod:`iqcar.replay.whatif.edit_cluster`.

Paper: Intervention | §2 | leaves it: a replay of the run with shared devices |
  tests/replay/whatif/test_removal_blame.py
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from iqcar.errors import UsageError
from iqcar.replay.loop.device_sharing import PHASES
from iqcar.replay.loop.task_demands import FETCH, WAIT
from iqcar.replay.whatif.data_growth import tasks_of_data, whole_tasks
from iqcar.replay.whatif.query_chains import without_queries
from iqcar.replay.whatif.scenario import Scenario
from iqcar.tables import NONE
from iqcar.tables.arrays import Flags, Ints, share_of, sum_by

MOST_TASKS = 1_000_000
"""Tasks of a changed run, if the recorded one had fewer: some 0.7 GB, and half a minute."""


def remove(scenario: Scenario, queries: Sequence[int]) -> Scenario:
    """Take queries away: none of their tasks runs; who waited for them takes their place."""
    delay, start = scenario.steps.delay.copy(), scenario.query_start
    gone = np.flatnonzero(np.isin(scenario.query, queries)).tolist()
    follows, delay[start] = without_queries(scenario.follows, delay[start], gone)
    scenario = replace(scenario, follows=follows, steps=scenario.steps._replace(delay=delay))
    return _with_tasks(scenario, np.flatnonzero(~np.isin(scenario.query_of_task, queries)))


def start_later(scenario: Scenario, later_ms: Mapping[int, float]) -> Scenario:
    """Start queries some time after they did; earlier where it is negative.

    A start that is set follows nothing.
    """
    delay, follows = scenario.steps.delay.copy(), scenario.follows.copy()
    for at, query in enumerate(scenario.query.tolist()):
        if query in later_ms:
            step = scenario.query_start[at]
            delay[step] = max(delay[step] + later_ms[query], 0.0)
            follows[at] = NONE
    return replace(scenario, steps=scenario.steps._replace(delay=delay), follows=follows)


def keep_starts(scenario: Scenario) -> Scenario:
    """Start all queries when they did, whatever they may have waited for."""
    return replace(scenario, follows=np.full(len(scenario.follows), NONE, np.int64))


def cap_tasks(scenario: Scenario, most: Mapping[int, int]) -> Scenario:
    """Let at most so many tasks of a query run at once."""
    cap_of, cap = scenario.cap_of.copy(), scenario.cap.tolist()
    for query, tasks in most.items():
        cap_of[scenario.query_of_step == query] = len(cap)
        cap.append(tasks)
    return replace(scenario, cap_of=cap_of, cap=np.array(cap, np.int64))


def own_pools(scenario: Scenario, weights: Mapping[int, int]) -> Scenario:
    """Give queries FAIR pools of their own with these weights."""
    pools = scenario.pools
    return replace(scenario, pools=replace(pools, weights={**pools.weights, **weights}))


def change_pools(
    scenario: Scenario, weight: Mapping[str, int], min_share: Mapping[str, int]
) -> Scenario:
    """Give pools that there are another weight or minShare."""
    chosen = replace(scenario.pools, pool_weight=dict(weight), pool_min_share=dict(min_share))
    return replace(scenario, pools=chosen)


def set_mode(scenario: Scenario, fair: bool) -> Scenario:
    """Let all applications schedule FAIR or FIFO."""
    return replace(scenario, pools=replace(scenario.pools, fair=fair))


def set_mode_of(scenario: Scenario, fair: Mapping[int, bool]) -> Scenario:
    """Let applications, by position among the workloads, schedule FAIR or FIFO."""
    return replace(scenario, pools=replace(scenario.pools, fair_of=dict(fair)))


def scale_data(scenario: Scenario, factors: Mapping[int, float]) -> Scenario:
    """Multiply the data of queries: more tasks like the recorded ones, or longer ones.

    Which stages get more tasks: :func:`iqcar.replay.whatif.data_growth.tasks_of_data`.

    Raises UsageError if that makes more than :data:`MOST_TASKS` tasks, and more than there are.
    """
    steps = scenario.steps
    by = np.array([factors.get(query, 1.0) for query in scenario.query_of_step.tolist()], float)
    tasks = steps.first_late - steps.first_task[:-1]
    wanted = whole_tasks(tasks, tasks_of_data(scenario, by))
    changed = np.flatnonzero(wanted != tasks)
    new = np.zeros(len(tasks), np.int64)
    new[changed] = wanted[changed]
    _check_tasks(tasks, new, "--scale")
    if len(changed):
        scenario = _with_copies(scenario, tasks, wanted)
    # A task of a stage that has more of them does what one did; else each does more.
    factor = (by * tasks / np.maximum(wanted, 1))[scenario.work.step]
    memory = scenario.memory * factor if len(scenario.memory) else scenario.memory
    return replace(
        scenario, alone=scenario.alone * factor[:, None], gc=scenario.gc * factor, memory=memory
    )


def _with_copies(scenario: Scenario, tasks: Ints, wanted: Ints) -> Scenario:
    """Repeat first attempts of steps, or leave some out, evenly over their sizes.

    Copies spread over hosts as tasks do: each goes to the next one.
    """
    steps, size = scenario.steps, scenario.alone.sum(axis=1)
    hosts = np.unique(scenario.slots.host[scenario.slots.change > 0])
    rows, copy, anew = [], [], []
    for step, (old, new) in enumerate(zip(tasks.tolist(), wanted.tolist(), strict=True)):
        first, last = steps.first_task[step : step + 2].tolist()
        each, late = np.arange(first, first + old), np.arange(first + old, last)
        number = np.ones(old, np.int64)
        if new != old:
            by_size = np.argsort(size[each], kind="stable")
            chosen = by_size[(2 * np.arange(new) + 1) * old // (2 * new)]
            number = np.bincount(chosen, minlength=old).astype(np.int64)
            # Further attempts are of tasks that there may be no more.
            late = late if new > old else late[:0]
        once, further = each[number > 0], np.repeat(each, np.maximum(number - 1, 0))
        nth = np.concatenate([np.zeros(0), *(np.arange(1, max(n, 1)) for n in number.tolist())])
        rows += [once, further, late]
        copy += [np.zeros(len(once)), nth, np.zeros(len(late))]
        anew += [np.full(len(once), new < old), np.ones(len(further)), np.zeros(len(late))]
    source = np.concatenate(rows)
    after = _with_tasks(scenario, source, again=np.concatenate(anew).astype(bool))
    at = np.searchsorted(hosts, scenario.work.host[source]) + np.concatenate(copy).astype(np.int64)
    known = scenario.work.host[source] >= 0
    host = np.where(known, hosts[at % len(hosts)], -1)
    return replace(after, work=after.work._replace(host=host))


def without_gc(scenario: Scenario, queries: Sequence[int] | None = None) -> Scenario:
    """Take garbage collection away, by default of all queries."""
    off = np.ones(len(scenario.gc), bool)
    if queries is not None:
        off = np.isin(scenario.query_of_task, queries)
    alone = scenario.alone.copy()
    alone[off, WAIT] = np.maximum(alone[off, WAIT] - scenario.gc[off], 0.0)
    return replace(scenario, alone=alone, gc=np.where(off, 0.0, scenario.gc))


def without_skew(scenario: Scenario, queries: Sequence[int]) -> Scenario:
    """Give all tasks of a stage of these queries the same work."""
    step, chosen = scenario.work.step, np.isin(scenario.query_of_task, queries)
    n = len(scenario.steps.delay)
    tasks = sum_by(step, np.ones(len(step)), n)
    alone, use = scenario.alone.copy(), scenario.use.copy()
    for phase in range(PHASES):
        time = sum_by(step, alone[:, phase], n)
        moved = sum_by(step, alone[:, phase] * use[:, phase], n)
        alone[chosen, phase] = share_of(time, tasks)[step][chosen]
        use[chosen, phase] = share_of(moved, time)[step][chosen]
    gc = np.where(chosen, share_of(sum_by(step, scenario.gc, n), tasks)[step], scenario.gc)
    memory = scenario.memory
    if len(memory):
        memory = np.where(chosen, share_of(sum_by(step, memory, n), tasks)[step], memory)
    return replace(scenario, alone=alone, use=use, gc=gc, memory=memory)


def repartition(scenario: Scenario, partitions: Mapping[int, int]) -> Scenario:
    """Divide the work of stages that read a shuffle among another number of tasks.

    The new tasks differ in size as the old ones do: each is like one of them, all together do what
    these did.

    Raises UsageError if that makes more than :data:`MOST_TASKS` tasks, and more than there are.
    """
    step = scenario.work.step
    n = len(scenario.steps.delay)
    fetched = sum_by(step, scenario.alone[:, FETCH] * scenario.use[:, FETCH], n)
    fetches = (fetched > 0) | np.isin(np.arange(n), _readers(scenario))
    size = scenario.alone.sum(axis=1)
    tasks = np.diff(scenario.steps.first_task)
    new = np.array([partitions.get(query, 0) for query in scenario.query_of_step.tolist()], int)
    new[(tasks == 0) | ~fetches] = 0
    _check_tasks(tasks, new, "--partitions")
    source, anew = [], []
    for at, wanted in enumerate(new.tolist()):
        first, last = scenario.steps.first_task[at : at + 2].tolist()
        rows, changed = np.arange(first, last), wanted > 0
        if changed:
            old = np.arange(first, int(scenario.steps.first_late[at]))
            by_size = old[np.argsort(size[old], kind="stable")]
            rows = np.sort(by_size[(2 * np.arange(wanted) + 1) * len(old) // (2 * wanted)])
        source.append(rows)
        anew.append(np.full(len(rows), changed))
    chosen = np.concatenate(anew)
    after = _with_tasks(scenario, np.concatenate(source), again=chosen)
    to = after.work.step
    alone, use, gc = after.alone.copy(), after.use.copy(), after.gc.copy()
    for phase in range(PHASES):
        time, now = sum_by(step, scenario.alone[:, phase], n), sum_by(to, alone[:, phase], n)
        # What only few tasks did may be done by none of those that the new ones are like.
        nobody = (now <= 0)[to] & chosen
        moved = sum_by(step, scenario.alone[:, phase] * scenario.use[:, phase], n)
        use[nobody, phase] = share_of(moved, time)[to][nobody]
        alone[nobody, phase] = 1.0
        by = share_of(time, sum_by(to, alone[:, phase], n))[to]
        alone[chosen, phase] *= by[chosen]
    gc[chosen] *= share_of(sum_by(step, scenario.gc, n), sum_by(to, gc, n))[to][chosen]
    memory = after.memory.copy()
    if len(memory):
        memory[chosen] *= share_of(sum_by(step, scenario.memory, n), sum_by(to, memory, n))[to][
            chosen
        ]
    return replace(after, alone=alone, use=use, gc=gc, memory=memory)


def _check_tasks(tasks: Ints, new: Ints, option: str) -> None:
    """Refuse more tasks than can be replayed; ``new`` is 0 where a step stays as it is."""
    stay = int(tasks[new == 0].sum())
    total, most = stay + int(new.sum()), max(MOST_TASKS, int(tasks.sum()))
    if total > most:
        each = (most - stay) // max(int(np.count_nonzero(new)), 1)
        raise UsageError(
            f"makes {total:,} tasks, in {np.count_nonzero(new):,} stages; at most {most:,} are "
            "replayed",
            option,
            f"ask for up to {each:,}"
            if each and option == "--partitions"
            else "ask for less or for another query",
        )


def _readers(scenario: Scenario) -> Ints:
    """Steps of stages that read what other stages wrote."""
    readers = scenario.tables.stage_parents["stage"].to_numpy(np.int64)
    found: Ints = np.flatnonzero(np.isin(scenario.stage_of_step, readers))
    return found


def _with_tasks(scenario: Scenario, rows: Ints, again: Flags | None = None) -> Scenario:
    """Keep some tasks, in the order of their steps; ``again`` marks first attempts made anew."""
    work, steps = scenario.work, scenario.steps
    anew = np.zeros(len(rows), bool) if again is None else again
    late = np.arange(len(work.step)) >= steps.first_late[work.step]
    position = np.full(len(work.step) + 1, -1, np.int64)
    position[rows[~anew]] = np.flatnonzero(~anew)
    step = work.step[rows]
    n = len(steps.delay)
    counts = work.counts[rows] | anew
    kept = work._replace(
        step=step,
        duration=work.duration[rows],
        counts=counts,
        next_attempt=np.where(anew, -1, position[work.next_attempt[rows]]),
        next_at_launch=work.next_at_launch[rows] & ~anew,
        next_wait=work.next_wait[rows],
        host=np.where(anew, -1, work.host[rows]),
    )
    first_task = np.searchsorted(step, np.arange(n + 1))
    first = ~(late[rows] & ~anew)
    new_steps = steps._replace(
        first_task=first_task,
        first_late=first_task[:-1] + np.bincount(step[first], minlength=n),
        counted=np.bincount(step[counts], minlength=n),
    )
    return replace(
        scenario,
        work=kept,
        steps=new_steps,
        alone=scenario.alone[rows],
        use=scenario.use[rows],
        gc=scenario.gc[rows],
        task=scenario.task[rows],
        memory=scenario.memory[rows] if len(scenario.memory) else scenario.memory,
    )
