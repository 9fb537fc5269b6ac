"""Time blame, and with --truth score it against the effect of removing sources.

With --truth: how it ranks the sources that are worth removing, beside the best that can be had, and
how the amounts that it says were lost compare with what all others together cost, on quiet clusters
and on loud ones. The last table, which --families prints alone, has every measure of every family.

scripts/bench blame [--full] [--truth | --families NAME …] [--printed] [--seeds N] [--fresh]:
CPU seconds for n, n/2 and n/4 tasks (linear?) and the ratio to enumerating pairs at the largest
size where that is possible; all in one run, after compiling.
"""

from __future__ import annotations

import sys

import numba
import numpy as np
import pandas as pd

from iqcar.causes.blame.attribute import attribute, measure_demand
from iqcar.causes.blame.ratp import measure_loss, used_share
from iqcar.causes.blame.task_intervals import BlameColumns
from iqcar.enums import REQUESTS, Domain, Request
from iqcar.tables import (
    APPLICATIONS,
    EXECUTORS,
    HOSTS,
    QUERIES,
    STAGES,
    TASKS,
    Tables,
)
from iqcar_lab.clusters.frames import EPOCH_MS, frame, waits_frame
from scripts.benchmarks import Goals, least_s, parser_of, sized

HOST_COUNT, SLOTS, QUERY_COUNT = 20, 48, 40
TASKS_PER_STAGE = 1000
TASK_MS = 2000.0
LINEAR = 2.5
"""Goal: times as long for twice the tasks; 4 is quadratic, and caches grow too small."""
SCAN, SHUFFLE = 1e8, 5e7


def synthetic(n: int, seed: int = 1) -> tuple[Tables, pd.DataFrame]:
    """40 queries side by side on 20 hosts × 48 slots, always full; 25 stages each at 1 M tasks."""
    rng = np.random.default_rng(seed)
    per_query = max(round(n / TASKS_PER_STAGE / QUERY_COUNT), 1)
    n_stages = QUERY_COUNT * per_query
    lane = np.arange(n) % (HOST_COUNT * SLOTS)
    span = np.maximum(rng.exponential(TASK_MS, n), 5.0).round()
    order = np.argsort(lane, kind="stable")
    ends = np.empty(n)
    ends[order] = np.cumsum(span[order])
    first = np.zeros(HOST_COUNT * SLOTS)
    first[1:] = np.cumsum(np.bincount(lane, span, len(first)))[:-1]
    launch = ends - span - first[lane]
    # All queries run throughout; each goes through its stages one after another.
    progress = np.minimum(launch / max(launch.max(), 1.0), 1 - 1e-9)
    query = rng.integers(QUERY_COUNT, size=n)
    stage = query * per_query + (progress * per_query).astype(np.int64)
    host = lane // SLOTS
    tasks = frame(
        TASKS,
        n,
        app=np.zeros(n),
        stage=stage,
        query=query,
        host=host,
        executor=host,
        launch_ms=EPOCH_MS + launch,
        finish_ms=EPOCH_MS + launch + span,
        input_bytes=SCAN * rng.random(n),
        remote_bytes=SHUFFLE * rng.random(n),
        shuffle_write_bytes=SHUFFLE * rng.random(n),
        output_bytes=np.zeros(n),
        disk_spilled_bytes=np.zeros(n),
        peak_memory_bytes=SCAN * rng.random(n),
    )
    part = rng.dirichlet(np.ones(6), n).T * span
    waits = waits_frame(
        tasks,
        {
            Request.SLOT_WAIT: rng.exponential(TASK_MS, n),
            Request.RUN_QUEUE: part[0],
            Request.SHUFFLE_FETCH: part[1],
            Request.IO_READ: part[2],
            Request.IO_WRITE: part[3],
        },
        compute_ms=part[4],
        gc_ms=part[5] / 4,
    )
    begin = np.full(n_stages, np.inf)
    end = np.zeros(n_stages)
    np.minimum.at(begin, stage, launch)
    np.maximum.at(end, stage, launch + span)
    ran = np.isfinite(begin)
    tables = Tables.empty().with_(
        applications=frame(APPLICATIONS, 1, task_cpus=[1.0]),
        hosts=frame(HOSTS, HOST_COUNT, host=[f"host-{h}" for h in range(HOST_COUNT)]),
        executors=frame(
            EXECUTORS,
            HOST_COUNT,
            app=np.zeros(HOST_COUNT),
            host=np.arange(HOST_COUNT),
            cores=np.full(HOST_COUNT, float(SLOTS)),
        ),
        queries=frame(
            QUERIES,
            QUERY_COUNT,
            start_ms=np.full(QUERY_COUNT, EPOCH_MS),
            end_ms=np.full(QUERY_COUNT, EPOCH_MS + end.max()),
        ),
        stages=frame(
            STAGES,
            n_stages,
            app=np.zeros(n_stages),
            query=np.arange(n_stages) // per_query,
            submission_ms=np.where(ran, EPOCH_MS + begin, np.nan),
            completion_ms=np.where(ran, EPOCH_MS + end, np.nan),
        ),
        tasks=tasks,
    )
    return tables, waits


@numba.njit
def enumerate_pairs(domain, begin, end, p, q, rate, weight, group, source, out):
    """Eq. 6 for every pair of tasks, twice: for conservation, then for the shares."""
    n = len(domain)
    for i in range(n):
        if weight[i] <= 0.0:
            continue
        total = 0.0
        for j in range(n):
            if domain[i] == domain[j] and i != j:
                overlap = min(end[i], q[j]) - max(begin[i], p[j])
                if overlap > 0.0:
                    total += overlap * rate[j]
        scale = min(1.0, 1.0 / (total * weight[i])) if total > 0.0 else 0.0
        for j in range(n):
            if domain[i] == domain[j] and i != j:
                overlap = min(end[i], q[j]) - max(begin[i], p[j])
                if overlap > 0.0:
                    out[group[i], source[j]] += overlap * rate[j] * weight[i] * scale


def naive(tables: Tables, waits: pd.DataFrame) -> None:
    """All requests by pairs, from the same inputs as the sweep."""
    columns = BlameColumns.from_tables(tables, waits)
    demand = measure_demand(tables, waits)
    n_stages = len(tables.stages)
    group = columns.stage * (HOST_COUNT + 1) + columns.host
    for request in REQUESTS:
        loss = measure_loss(columns, request, demand.contention)
        if not loss.lost.any():
            continue
        rate = used_share(columns, request, demand)
        slots = request.domain is Domain.APPLICATION
        begin = columns.slots.asked if slots else columns.launch
        end, p, q = (
            (columns.slots.launched, columns.slots.launched, columns.slots.finished)
            if slots
            else (columns.finish, columns.launch, columns.finish)
        )
        weight = np.where(loss.slowdown > 0, loss.stretch / np.maximum(loss.span, 1.0), 0.0)
        out = np.zeros((n_stages * (HOST_COUNT + 1), n_stages))
        domain = columns.domain(request)
        enumerate_pairs(domain, begin, end, p, q, rate, weight, group, columns.stage, out)


def speed(n: int, naive_tasks: int) -> int:
    """Print time for n, n/2, n/4 tasks and the ratio to pairs; return the exit code."""
    goals = Goals()
    small = synthetic(2_000)
    attribute(*small)
    naive(*small)
    took = {}
    for size in (n // 4, n // 2, n):
        data = synthetic(size)
        took[size] = least_s(lambda data=data: attribute(*data), 2)
        print(f"blame of {size:>9,} tasks: {took[size]:7.2f} s, {size / took[size]:,.0f}/s")
    goals.most("n tasks against n/2 (linear: 2)", took[n] / took[n // 2], LINEAR)
    goals.most("n/2 tasks against n/4 (linear: 2)", took[n // 2] / took[n // 4], LINEAR)
    data = synthetic(naive_tasks)
    swept, paired = least_s(lambda: attribute(*data), 2), least_s(lambda: naive(*data))
    print(
        f"pairs of {naive_tasks:,} tasks (compiled loop): {paired:.2f} s, swept {swept:.3f} s: "
        f"{paired / swept:.0f} times faster"
    )
    return goals.end()


def main() -> int:
    """Run the chosen part."""
    parser = parser_of(__doc__, full="1 M tasks instead of 200,000")
    parser.add_argument("--truth", action="store_true", help="score against removal instead")
    parser.add_argument(
        "--families", nargs="*", metavar="NAME", help="that table alone, of families or groups"
    )
    parser.add_argument("--printed", action="store_true", help="of iQCAR as printed, not ours")
    parser.add_argument("--queries", action="store_true", help="each query of those families")
    parser.add_argument("--seeds", type=int, help="runs of each family, instead of 8 or 24")
    parser.add_argument("--fresh", action="store_true", help="seeds that nothing is chosen on")
    options = parser.parse_args()
    if options.truth or options.families is not None:
        from iqcar_lab.clusters.scores import (
            FRESH,
            TUNING,
            by_blame,
            by_print,
            named,
            print_family_scores,
            print_queries,
        )
        from iqcar_lab.clusters.truth import print_scores

        first = FRESH if options.fresh else TUNING
        seeds = range(first, first + (options.seeds or (24 if options.full else 8)))
        if options.truth:
            print_scores(seeds)
        show = print_queries if options.queries else print_family_scores
        says = by_print if options.printed else by_blame
        show(seeds, named(options.families or ()), says)
        return 0
    sizes = sized(options, quick=(2_000, 1_000), usual=(200_000, 50_000), full=(1_000_000, 100_000))
    return speed(*sizes)


if __name__ == "__main__":
    sys.exit(main())
