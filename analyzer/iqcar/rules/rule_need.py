"""Tells whether a rule in force is still needed: whether there would be contention without it.

A rule that works removes the blame that it was proposed for, and a cap even removes the hog's
launches, so that a replay of the run without the rule would find little to run. What no rule
changes is demand: the tasks that a stage has not finished, running or not. A rule is needed while
the queries it holds back and those it helps want slots at the same time, and all together want more
than there are. Of a rule against other waits the latter is not asked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from iqcar.enums import Resource
from iqcar.rules.propose_rules import MIN_LOST_MS, MIN_LOST_SHARE
from iqcar.rules.recorded_setup import sure_slots
from iqcar.rules.rule import QueryType, Rule
from iqcar.tables import Tables, texts
from iqcar.tables.arrays import Floats, Ints

HELD_BACK, HELPED, OTHERS = range(3)
"""Sides of a rule that demand is counted for."""

OPEN = ("running", "waiting")
"""Statuses of tasks that have not ended."""


@dataclass(frozen=True)
class Need:
    """What some time of a run says of a rule in force.

    needed: whether those it helps would wait for those it holds back again without it.
    why: the same in words, a clause.
    told: whether both ran, so that the time tells.
    harmed: whether those it helps were measured to be slower since it acts.
    """

    needed: bool
    why: str
    told: bool = True
    harmed: bool = False


def needs_of(rules: Iterable[Rule], tables: Tables, start_ms: float, end_ms: float) -> list[Need]:
    """Look up for each rule in force whether some time of a run needed it.

    tables: Of one application; tasks that run or wait count to the end of that time, those that
        wait only where they have rows (a running application).
    start_ms, end_ms: That time, by the log's clock.
    """
    slots = sure_slots(tables, 0) if len(tables.applications) else None
    return [_need(rule, tables, start_ms, end_ms, slots) for rule in rules]


def victims_of(rule: Rule) -> frozenset[str]:
    """Return the fingerprints that a rule is to help; empty: everybody else."""
    if rule.query_type is QueryType.TARGET:
        return frozenset((rule.fingerprint,))
    listed = (rule.expected or {}).get("victim_fingerprints") or ()
    return frozenset(one for one in listed if isinstance(one, str))


def sides_of(rule: Rule, tables: Tables) -> Ints:
    """Return for each query whether the rule holds it back, helps it, or neither.

    Returns ndarray of shape (n_queries,), int64.
    """
    fingerprints = texts(tables.queries, "fingerprint")
    victims = victims_of(rule)
    if rule.query_type is QueryType.TARGET:
        sides = [HELPED if one in victims else HELD_BACK for one in fingerprints]
    else:
        rest = OTHERS if victims else HELPED
        sides = [
            HELD_BACK if one == rule.fingerprint else HELPED if one in victims else rest
            for one in fingerprints
        ]
    return np.array(sides, np.int64)


def _need(rule: Rule, tables: Tables, start_ms: float, end_ms: float, slots: int | None) -> Need:
    side = np.append(sides_of(rule, tables), OTHERS)[tables.stages["query"].to_numpy(np.int64)]
    lasted, demand = demand_of(tables, side, start_ms, end_ms)
    wanted = demand > 0
    both = wanted[HELD_BACK] & wanted[HELPED]
    of_slots = rule.resource == Resource.SLOTS.value
    # A disk, a network or processors are short for tasks that all have slots.
    short = both & (demand.sum(axis=0) > slots) if of_slots and slots is not None else both
    contended = float(lasted[short].sum())
    least = max(MIN_LOST_MS, MIN_LOST_SHARE * (end_ms - start_ms))
    if contended >= least:
        seconds = f"{contended / 1000:.1f} s"
        did = "wanted slots" if of_slots else "ran side by side"
        return Need(True, f"those it holds back and those it helps {did} for {seconds}")
    if not wanted[HELD_BACK].any():
        return Need(False, "what it holds back did not run", told=False)
    if not wanted[HELPED].any():
        return Need(False, "nobody it helps ran", told=False)
    if not of_slots or not both.any():
        return Need(False, "what it holds back and those it helps did not run at the same time")
    return Need(False, f"all together hardly wanted more than the {slots} slots")


def demand_of(tables: Tables, side: Ints, start_ms: float, end_ms: float) -> tuple[Floats, Floats]:
    """Count the unfinished tasks of open stages over a window.

    Returns ndarray of shape (n_pieces,), ms: how long each piece of the window lasted. Returns
    ndarray of shape (3, n_pieces): tasks that each side wanted to run in it.

    side: (n_stages,), int64; which of the three sides each stage counts for.
    """
    stages, tasks = tables.stages, tables.tasks
    stage = tasks["stage"].to_numpy(np.int64)
    status = tasks["status"].astype(object).to_numpy()
    # A failed attempt comes again as another row, and a copy is of a task that counts already.
    counts = np.isin(status, ("success", *OPEN)) & ~tasks["speculative"].to_numpy(bool)
    opened = np.fmin(
        stages["submission_ms"].to_numpy(np.float64), stages["first_launch_ms"].to_numpy(np.float64)
    )
    rows = np.flatnonzero(counts & (stage >= 0) & np.isfinite(np.append(opened, np.nan)[stage]))
    stage = stage[rows]
    closed = stages["completion_ms"].to_numpy(np.float64)[stage]
    finish = tasks["finish_ms"].to_numpy(np.float64)[rows]
    finish[np.isin(status[rows], OPEN)] = np.inf
    until = np.fmin(finish, np.where(np.isfinite(closed), closed, np.inf))
    when = np.concatenate([opened[stage], until])
    change = np.repeat([1.0, -1.0], len(rows))
    of_side = np.tile(side[stage], 2)
    inside = np.clip(when, start_ms, end_ms)
    edges = np.unique(np.concatenate([[start_ms, end_ms], inside]))
    demand = np.zeros((3, len(edges)))
    # What ends with or after the window leaves its last piece as it is.
    before_end = when < end_ms
    at = np.searchsorted(edges, inside)
    np.add.at(demand, (of_side[before_end], at[before_end]), change[before_end])
    return np.diff(edges), np.cumsum(demand, axis=1)[:, :-1]
