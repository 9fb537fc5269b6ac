"""Computes blame and iQC-Graph as iQCAR prints them: eq. 3, 6 to 9, by waits and cumulative RATP.

P. Kalmegh, S. Babu, S. Roy: *iQCAR: inter-Query Contention Analyzer for Data Analytics Frameworks*,
SIGMOD 2019. Where our method leaves it, and why: docs/demand.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import pandas as pd

from iqcar.causes.blame.attribute import Accounts, Blame, Sharing
from iqcar.causes.blame.others_parts import room_of
from iqcar.causes.blame.ratp import (
    ROUNDING,
    Loss,
    data_processed,
    measure_loss,
    of_domain,
    wait_and_ratp,
)
from iqcar.causes.blame.task_intervals import BlameColumns, DomainSchedules, Pieces, slot_schedule
from iqcar.causes.graph.iqc_graph import IQCGraph, build_graph
from iqcar.causes.graph.structure import all_contributions, by_source, pass_up
from iqcar.enums import REQUESTS, Domain, Request
from iqcar.model.demand.estimate import Demand
from iqcar.tables import Tables
from iqcar.tables.arrays import Floats, Ints, Schedule, known_or_zero, positive_or_zero


def attribute_as_printed(tables: Tables, waits: pd.DataFrame) -> Blame:
    """Attribute every stage's waits by data per waiting time; every source query is named.

    Parameters are those of :func:`iqcar.causes.blame.attribute.attribute`. Eq. 6 takes averages
    over whole tasks. Waits for executors, which the paper does not know, are attributed as ours.
    """
    columns = BlameColumns.from_tables(tables, waits)
    pieces = Pieces.one_each(columns)
    schedules, accounts = DomainSchedules(pieces), Accounts(columns)
    for request in REQUESTS:
        loss = loss_as_printed(columns, request)
        if not accounts.waited(loss).any():
            continue
        if request.domain is Domain.CLUSTER:
            accounts.add_executors(loss)
            continue
        slots = request.domain is Domain.APPLICATION
        events = _slots_of_tasks(columns) if slots else schedules.of(request)
        share = Sharing(pieces, loss, events, accounts.places)
        accounts.add(loss, share.out(used_while_waiting(columns, request), room_of(loss), None))
    return accounts.blame(waits, Demand(), most_sources=None, critical_path=False)


def loss_as_printed(columns: BlameColumns, request: Request) -> Loss:
    """Compute eq. 3: S = C_h / c_tt − 1, with c_tt = 1 / RATP_tt at most C_h."""
    if request is Request.EXECUTOR_WAIT:
        return measure_loss(columns, request, {})
    wait, ratp = wait_and_ratp(columns, request)
    best = _best_of_each(columns, request)
    slowdown = known_or_zero(best * ratp) - 1.0
    slowdown = np.where(slowdown > ROUNDING, slowdown, 0.0)
    span = wait if request is Request.SLOT_WAIT else columns.span
    loss = Loss.of_all(request, wait, ratp, slowdown, span)
    return replace(loss, lost=wait * slowdown / (1.0 + slowdown))


def used_while_waiting(columns: BlameColumns, request: Request) -> Floats:
    """Return the source's term of eq. 6: its DP / WT, and the capacity where it never waited."""
    wait, data = columns.wait(request), data_processed(columns, request)
    speed = data / np.where(wait > 0, wait, np.nan)
    share = np.where(wait > 0, speed / _best_of_each(columns, request), 1.0)
    return np.where((data > 0) & np.isfinite(wait), np.minimum(positive_or_zero(share), 1.0), 0.0)


def best_seen(data: Floats, wait_ms: Floats, domain: Ints, n_domains: int) -> Floats:
    """Return C_h, the highest DP / WT in each domain; NaN where there is none."""
    moved = np.flatnonzero((data > 0) & (wait_ms > 0) & (domain >= 0))
    best = np.full(n_domains, -np.inf)
    np.maximum.at(best, domain[moved], data[moved] / wait_ms[moved])
    return np.where(np.isfinite(best), best, np.nan)


def _best_of_each(columns: BlameColumns, request: Request) -> Floats:
    """Return C_h of each task's domain."""
    domain, data = columns.domain(request), data_processed(columns, request)
    best = best_seen(data, columns.wait(request), domain, domain.max(initial=-1) + 1)
    return of_domain(best, domain)


def _slots_of_tasks(columns: BlameColumns) -> Schedule:
    """Return when tasks waited for slots and held them, whether executors were there or not."""
    asked = np.where(np.isnan(columns.asked), columns.launch, columns.asked)
    return slot_schedule(columns, asked, columns.launch, columns.finish)


def build_graph_as_printed(
    tables: Tables,
    blame: Blame,
    *,
    targets: Sequence[int] | None = None,
    critical_path: bool = False,
) -> PrintedGraph:
    """Build iQC-Graph with the printed contributions (eq. 7 to 9).

    Stages contribute their cumulative CPU time, demands their cumulative RATP, and explanations
    their β. Parameters and errors are those of :func:`iqcar.causes.graph.iqc_graph.build_graph`;
    `blame` has to name all sources.
    """
    graph = build_graph(tables, blame, targets=targets, critical_path=critical_path)
    contribution = all_contributions(
        graph.structure, blame.stages["cpu_ms"], blame.demands["ratp"], blame.sources["beta"]
    )
    dor = pass_up(graph.structure, contribution, np.ones(len(graph.targets)))
    by_stage, by_query = by_source(graph.structure, dor, graph.lost)
    same = {field.name: getattr(graph, field.name) for field in fields(graph)}
    return PrintedGraph(**{**same, "dor": dor, "by_stage": by_stage, "by_query": by_query})


@dataclass(frozen=True, repr=False)
class PrintedGraph(IQCGraph):
    """iQC-Graph whose DOR and rankings are those of the paper (iQCAR §6.2)."""

    def aggressive_queries(self, k: int | None = None) -> pd.DataFrame:
        """Return source queries by their DOR."""
        found = _ordered(IQCGraph.aggressive_queries(self), ["dor", "lost_ms"], "query")
        return found if k is None else found.iloc[: max(k, 0)]

    def hot_resources(self) -> pd.DataFrame:
        """Return resources by Σ IF of their vertices."""
        return _ordered(IQCGraph.hot_resources(self), ["impact"], "resource")

    def slow_nodes(self) -> pd.DataFrame:
        """Return hosts by Σ IF of their vertices."""
        return _ordered(IQCGraph.slow_nodes(self), ["impact"], "host")


def _ordered(frame: pd.DataFrame, largest: list[str], then: str) -> pd.DataFrame:
    ascending = [*(False for _ in largest), True]
    return frame.sort_values([*largest, then], ascending=ascending, ignore_index=True)
