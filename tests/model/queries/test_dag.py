"""The stage DAG: depth as in the paper's example 2.1, and the critical path."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from iqcar.model.queries.critical_path import add_critical_path
from iqcar.tables import Tables
from tests.support.tiny_tables import tiny_tables


def dag(stages: list[tuple[float, float]], edges: list[tuple[int, int]], jobs=None) -> Tables:
    return add_critical_path(
        tiny_tables(
            stages=[
                {
                    "stage_id": n,
                    "submission_ms": s,
                    "completion_ms": e,
                    "job": (jobs or {}).get(n, 0),
                }
                for n, (s, e) in enumerate(stages)
            ],
            stage_parents=[{"stage": c, "parent": p} for c, p in edges],
        )
    )


def critical(tables: Tables) -> list[int]:
    return np.flatnonzero(tables.stages["critical"]).tolist()


def test_example_2_1_of_the_paper() -> None:
    # s0, s1, s2 scan; s3 needs all of them; s4 needs s3; s5 is the output stage.
    times = [(0, 4), (0, 9), (0, 5), (9, 12), (12, 14), (14, 15)]
    tables = dag(times, [(3, 0), (3, 1), (3, 2), (4, 3), (5, 4)])
    assert tables.stages["depth"].tolist() == [4, 4, 4, 3, 2, 1]
    assert critical(tables) == [1, 3, 4, 5]


def test_a_later_job_follows_what_ended_before_it() -> None:
    # Job 1 starts when job 0 has ended; job 2 ran beside job 0.
    times = [(0, 5), (5, 9), (0, 4)]
    assert critical(dag(times, [(1, 0)], {1: 0, 2: 2})) == [0, 1]
    assert critical(dag([(0, 5), (6, 9), (0, 3)], [(1, 0)], {0: 0, 1: 1, 2: 2})) == [0, 1]


def test_each_query_has_its_own_critical_path() -> None:
    tables = tiny_tables(
        stages=[
            {"query": 0, "submission_ms": 0.0, "completion_ms": 5.0},
            {"query": 1, "submission_ms": 0.0, "completion_ms": 1.0, "job": 1},
            {"query": -1, "submission_ms": 0.0, "completion_ms": 9.0, "job": -1},
        ]
    )
    assert critical(add_critical_path(tables)) == [0, 1]


def test_a_log_without_edges_orders_stages_by_time() -> None:
    assert critical(dag([(0, 5), (5, 9), (1, 3)], [])) == [0, 1]


def test_a_cycle_in_a_damaged_log_does_no_harm() -> None:
    tables = dag([(0, 5), (5, 9), (9, 10)], [(0, 1), (1, 0), (2, 1), (2, 2)])
    assert len(critical(tables)) >= 1
    assert (tables.stages["depth"] >= 1).all()


def test_unknown_times_do_no_harm() -> None:
    tables = dag([(np.nan, np.nan), (5, np.nan), (np.nan, 9)], [(1, 0)])
    assert len(critical(tables)) >= 1


def test_no_stages() -> None:
    assert len(add_critical_path(Tables.empty()).stages) == 0


@st.composite
def jobs_of_one_query(draw):
    n = draw(st.integers(1, 7))
    stages, edges, jobs = [], [], {}
    for stage in range(n):
        jobs[stage] = draw(st.integers(0, 2))
        mine = [p for p in range(stage) if jobs[p] == jobs[stage]]
        parents = draw(st.lists(st.sampled_from(mine), unique=True)) if mine else []
        edges += [(stage, p) for p in parents]
        start = max([stages[p][1] for p in parents], default=0) + draw(st.integers(0, 3))
        stages.append((float(start), float(start + draw(st.integers(1, 9)))))
    return stages, edges, jobs


@given(jobs_of_one_query())
def test_the_critical_path_is_the_heaviest_chain(query) -> None:
    stages, edges, jobs = query
    follows = {(c, p) for c, p in edges}
    follows |= {
        (c, p)
        for c in range(len(stages))
        for p in range(len(stages))
        if jobs[c] != jobs[p] and stages[p][1] <= stages[c][0]
    }
    if not edges:  # without any edge time orders the stages of a job too
        follows |= {
            (c, p)
            for c in range(len(stages))
            for p in range(len(stages))
            if stages[p][1] <= stages[c][0]
        }

    def runtime(chain) -> float:
        return sum(stages[s][1] - stages[s][0] for s in chain)

    def is_chain(chain) -> bool:
        ordered = sorted(chain, key=lambda s: stages[s])
        return all((c, p) in follows for p, c in pairwise(ordered))

    heaviest = max(
        runtime(chain)
        for size in range(1, len(stages) + 1)
        for chain in combinations(range(len(stages)), size)
        if is_chain(chain)
    )
    found = critical(dag(stages, edges, jobs))
    assert is_chain(found)
    assert runtime(found) == heaviest
