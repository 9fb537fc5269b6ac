"""The replay of a shared cluster agrees with a plain scheduler made of the documented rules."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.replay.loop.run import record
from iqcar.replay.queues.cluster_replay import ClusterReplays, QueuePlan, cluster_replays
from iqcar.rules.queue_files import LeafQueue, QueueSetup
from iqcar.tables import Tables, texts
from tests.support.examples import examples
from tests.support.naive_queues import NaiveCluster, NaiveQueue, NaiveRun, NaiveTenant
from tests.support.shared_cluster_logs import read

CORES = 10


def random_tenants(rng: np.random.Generator) -> list[NaiveTenant]:
    """Two to four applications with times in whole milliseconds, no two alike."""
    made = []
    for number in range(int(rng.integers(2, 5))):
        queries = tuple(
            (
                float(rng.integers(10, 900)) / 1000,
                tuple(rng.integers(500, 20_000, rng.integers(1, 9)) / 1000),
            )
            for _ in range(rng.integers(1, 4))
        )
        dynamic = bool(rng.random() < 0.5)
        made.append(
            NaiveTenant(
                f"tenant-{number}",
                f"user-{rng.integers(2)}",
                "ab"[int(rng.integers(2))],
                float(rng.integers(0, 20_000)) / 1000,
                queries,
                cores=int(rng.integers(1, 3)),
                most=int(rng.integers(1, 5)),
                # No timeout ends in the very millisecond in which a query starts.
                idle=float(rng.integers(1, 8)) + 3.7e-4 if dynamic else math.inf,
                units=int(rng.choice([0, 1, 3])),
            )
        )
    return made


def random_cluster(rng: np.random.Generator, preempts: bool = False) -> NaiveCluster:
    """Two queues of a cluster on which every application can run."""
    part = float(rng.choice([0.25, 0.5, 0.75]))
    fair = bool(rng.random() < 0.4)
    queues = tuple(
        NaiveQueue(
            name,
            share if fair else share * CORES,
            CORES * float(rng.choice([1.0, 0.8])),
            user_factor=math.inf if fair else float(rng.choice([2.0, 4.0])),
            user_least=1.0 if fair else float(rng.choice([1.0, 0.5])),
            evenly=fair or bool(rng.random() < 0.3),
        )
        for name, share in (("a", part), ("b", 1.0 - part))
    )
    return NaiveCluster(CORES, queues, fair, preempts_after=3.0 if preempts else math.inf)


def setup_of(cluster: NaiveCluster) -> QueueSetup:
    """The same queues as the replay takes them."""
    whole = 1 if cluster.fair else cluster.cores
    return QueueSetup(
        tuple(
            LeafQueue(
                f"root.{queue.name}",
                queue.guaranteed / whole,
                queue.maximum / cluster.cores,
                user_factor=queue.user_factor,
                user_least=queue.user_least,
                evenly=queue.evenly,
            )
            for queue in cluster.queues
        ),
        cluster.fair,
        1000 * cluster.preempts_after,
    )


def replays_of(run: NaiveRun, folder: Path) -> tuple[Tables, ClusterReplays]:
    """Lay the run's logs out, with what the log cannot tell as it was."""
    tables = read(run.logs(), folder)
    apps = list(range(len(tables.applications)))
    setup = setup_of(run.cluster)
    found = cluster_replays(tables, record(tables), apps, setup, run.cluster.cores)
    start_up = 1000 * run.cluster.start_up
    plans = {one.plan.name: one.plan for one in run.tenants}
    found.tenants = [
        replace(
            one,
            start_up_ms=start_up,
            asks_after_ms=0.0,
            idle_ms=1000 * plans[one.name].idle,
            size=plans[one.name].size,
        )
        for one in found.tenants
    ]
    return tables, found


def by_query(tables: Tables, durations: np.ndarray) -> dict[tuple[str, int], float]:
    """Durations in seconds, by application and position."""
    made = {}
    for name, lasted in zip(texts(tables.queries, "name"), durations.tolist(), strict=True):
        tenant, _, number = name.rpartition("-")
        made[tenant, int(number)] = lasted / 1000
    return made


def check(seed: int, preempts: bool) -> None:
    rng = np.random.default_rng(seed)
    tenants = random_tenants(rng)
    recorded, other = random_cluster(rng), random_cluster(rng, preempts)
    run, after = NaiveRun(recorded, tenants), NaiveRun(other, tenants)
    truth = run.durations()
    if any(math.isnan(one.ended) for one in run.tenants):
        return  # an application that never gets an executor has no log to its end
    with TemporaryDirectory() as folder:
        tables, replays = replays_of(run, Path(folder))
    found = by_query(tables, replays.replay().duration_ms)
    assert found == pytest.approx(truth, abs=2e-3)
    predicted = by_query(tables, replays.replay(QueuePlan(setup_of(other))).duration_ms)
    really = after.durations()
    ended = {key: lasted for key, lasted in really.items() if not math.isnan(lasted)}
    assert {key: predicted[key] for key in ended} == pytest.approx(ended, abs=2e-3)
    assert all(math.isnan(value) for key, value in predicted.items() if key not in ended)


@examples(40)
@given(st.integers(0, 10**6))
def test_replays_agree_with_the_documented_rules(seed: int) -> None:
    check(seed, preempts=False)


@examples(20)
@given(st.integers(0, 10**6))
def test_replays_with_preemption_agree_with_the_documented_rules(seed: int) -> None:
    check(seed, preempts=True)
