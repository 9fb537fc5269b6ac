"""A straggler slowed by a host names the queries that iQCAR blames for that host, then."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given

from iqcar.causes.blame.attribute import Blame, attribute
from iqcar.causes.blame.demand_weights import KNOWN, QUERY, UNATTRIBUTED
from iqcar.causes.stragglers.find_stragglers import blamed_queries
from iqcar.causes.stragglers.straggler_result import STRAGGLER_CAUSES, STRAGGLERS
from iqcar.enums import REQUESTS, Request
from tests.support.random_tables import tables_and_waits
from tests.support.tiny_tables import tiny_tables


def rows(spec, *given_rows):
    defaults = {"str": "", "float64": np.nan}
    columns = {
        c.name: [row.get(c.name, defaults.get(c.dtype, 0)) for row in given_rows]
        for c in spec.columns
    }
    return spec.frame(columns)


def blame_of(sources) -> Blame:
    demands = pd.DataFrame(
        {"stage": [0], "query": [0], "request": [REQUESTS.index(Request.RUN_QUEUE)], "host": [0]}
    )
    table = pd.DataFrame(sources, columns=["demand", "kind", "source_stage", "lost_ms"])
    return Blame(demands, table, pd.DataFrame(), ())


def cluster():
    """The victim's tasks run from 0 to 100 s; `early` before 50 s, `late` after, on host 0."""
    tasks = [
        {"stage": 0, "launch_ms": 0.0, "finish_ms": 40_000.0},
        {"stage": 0, "launch_ms": 60_000.0, "finish_ms": 100_000.0},
        {"stage": 1, "launch_ms": 0.0, "finish_ms": 50_000.0},
        {"stage": 2, "launch_ms": 50_000.0, "finish_ms": 100_000.0},
        {"stage": 2, "launch_ms": 0.0, "finish_ms": 100_000.0, "host": 1},
    ]
    return tiny_tables(
        tasks=tasks,
        stages=[{"query": 0}, {"query": 1, "stage_id": 1}, {"query": 2, "stage_id": 2}],
        queries=[{"name": n} for n in ("victim", "early", "late")],
        hosts=[{"host": "h0"}, {"host": "h1"}],
    )


def straggler(launch: float, host: int = 0):
    return rows(
        STRAGGLERS, {"stage": 0, "host": host, "launch_ms": launch, "duration_ms": 40_000.0}
    )


CPU = rows(STRAGGLER_CAUSES, {"straggler": 0, "cause": "host-cpu"})
BOTH = [(0, QUERY, 1, 1000.0), (0, QUERY, 2, 1000.0)]


@pytest.mark.parametrize(("launch", "culprit"), [(0.0, 1), (60_000.0, 2)])
def test_only_who_was_there_during_the_straggler_is_named(launch: float, culprit: int) -> None:
    sources = blamed_queries(straggler(launch), CPU, cluster(), blame_of(BOTH))
    assert sources["query"].tolist() == [culprit]
    assert sources["share"].tolist() == [1.0]


def test_what_nobody_did_keeps_its_share() -> None:
    blame = blame_of([*BOTH, (0, KNOWN, -1, 0.0), (0, UNATTRIBUTED, -1, 1000.0)])
    sources = blamed_queries(straggler(0.0), CPU, cluster(), blame)
    # `early` was there for 50 s, 40 s of them during the straggler; what nobody did is even over
    # the stage's 80 s, half of them the straggler's.
    assert sources["kind"].tolist() == ["query", "unattributed"]
    assert sources["share"].tolist() == pytest.approx([800 / 1300, 500 / 1300])
    assert sources["query"].tolist() == [1, -1]


def test_another_host_or_cause_links_to_nobody() -> None:
    skew = rows(STRAGGLER_CAUSES, {"straggler": 0, "cause": "input-skew"})
    disk = rows(STRAGGLER_CAUSES, {"straggler": 0, "cause": "host-disk"})
    for causes, host in ((CPU, 1), (skew, 0), (disk, 0)):
        assert blamed_queries(straggler(0.0, host), causes, cluster(), blame_of(BOTH)).empty


@pytest.mark.slow
@given(tables_and_waits())
def test_shares_of_a_cause_sum_to_one_whatever_the_tables(data) -> None:
    blame = attribute(data.tables, data.waits)
    tasks = data.tables.tasks
    good = np.flatnonzero((tasks["stage"] >= 0).to_numpy() & tasks["finish_ms"].notna().to_numpy())
    mine = tasks.iloc[good]
    stragglers = rows(
        STRAGGLERS,
        *(
            {"task": int(t), "stage": s, "host": h, "launch_ms": a, "duration_ms": b - a}
            for t, s, h, a, b in zip(
                good, mine["stage"], mine["host"], mine["launch_ms"], mine["finish_ms"],
                strict=True,
            )
        ),
    )  # fmt: skip
    listed = [
        {"straggler": n, "cause": cause}
        for n in range(len(stragglers))
        for cause in ("host-cpu", "host-disk", "host-network", "gc")
    ]
    causes = rows(STRAGGLER_CAUSES, *listed)
    sources = blamed_queries(stragglers, causes, data.tables, blame)
    sums = sources.groupby("cause")["share"].sum()
    np.testing.assert_allclose(sums, 1.0)
    assert (sources["share"] > 0).all()
    assert "gc" not in set(causes["cause"].to_numpy()[sums.index])
    nobody = sources["kind"].isin(["known", "unattributed"])
    assert (sources["query"][nobody] == -1).all()
