"""Random tables with a random Blame that keeps its contract: sums, one known, one unattributed."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from iqcar.causes.blame.attribute import Blame
from iqcar.causes.blame.demand_weights import DEMANDS, OWN, QUERY, SOURCES, STAGE_LOSSES
from iqcar.causes.blame.demand_weights import KNOWN as KNOWN_CODE
from iqcar.causes.blame.demand_weights import UNATTRIBUTED as UNATTRIBUTED_CODE
from iqcar.enums import REQUESTS, Request
from iqcar.tables import Tables
from tests.support.tiny_tables import tiny_tables

KNOWN, UNATTRIBUTED = "known", "unattributed"
Source = tuple[int | str, float]


def blame_of_rows(
    tables: Tables,
    demands: list[tuple[int, Request, int, float, list[Source]]],
    stage_lost: list[float],
) -> Blame:
    """A Blame written by hand.

    Each demand is (stage, request, host, lost_ms, sources); a source is (stage row, "known" or
    "unattributed", lost_ms). Sources not named get an empty known and unattributed row.
    """
    query = tables.stages["query"].to_numpy()
    rows: list[tuple[int, int, int, float]] = []
    for number, (stage, _, _, _, sources) in enumerate(demands):
        named = dict(sources)
        for source, lost in {KNOWN: 0.0, UNATTRIBUTED: 0.0, **named}.items():
            if source == KNOWN:
                rows.append((number, KNOWN_CODE, -1, lost))
            elif source == UNATTRIBUTED:
                rows.append((number, UNATTRIBUTED_CODE, -1, lost))
            else:
                own = query[source] == query[stage]
                rows.append((number, OWN if own else QUERY, int(source), lost))
    n, m = len(demands), len(tables.stages)
    lost = [d[3] for d in demands]
    demand_columns: dict[str, Any] = {c.name: np.zeros(n) for c in DEMANDS.columns}
    demand_columns.update(
        stage=[d[0] for d in demands],
        query=[query[d[0]] for d in demands],
        request=[REQUESTS.index(d[1]) for d in demands],
        host=[d[2] for d in demands],
        lost_ms=lost,
        ratp=lost,
    )
    stage_columns: dict[str, Any] = {c.name: np.zeros(m) for c in STAGE_LOSSES.columns}
    stage_columns.update(lost_ms=stage_lost, cpu_ms=np.ones(m))
    source_lost = [r[3] for r in rows]
    sources = SOURCES.frame(
        {
            "demand": [r[0] for r in rows],
            "kind": [r[1] for r in rows],
            "source_stage": [r[2] for r in rows],
            "beta": source_lost,
            "lost_ms": source_lost,
            "idle_ms": np.zeros(len(rows)),
        }
    )
    return Blame(DEMANDS.frame(demand_columns), sources, STAGE_LOSSES.frame(stage_columns), ())


def named_tables(
    stage_query: list[int],
    hosts: int = 1,
    *,
    queries: list[dict[str, Any]] | None = None,
    critical: list[bool] | None = None,
    applications: int = 1,
) -> Tables:
    """Queries q0, q1 … of 100 s each, stages numbered by row, hosts h0, h1 …"""
    count = max(stage_query, default=-1) + 1
    queries = queries or [{}] * count
    return tiny_tables(
        applications=[{"application_id": f"app-{i}"} for i in range(applications)],
        hosts=[{"host": f"h{i}"} for i in range(hosts)],
        queries=[
            {
                "query_id": f"app-0/sql-{i}",
                "name": f"q{i}",
                "fingerprint": f"name:q{i}",
                "start_ms": 0.0,
                "end_ms": 100_000.0,
                "duration_ms": 100_000.0,
                **query,
            }
            for i, query in enumerate(queries)
        ],
        stages=[
            {"stage_id": row, "query": query, "critical": critical is None or critical[row]}
            for row, query in enumerate(stage_query)
        ],
    )


AMOUNTS = st.one_of(st.just(0.0), st.floats(1e-3, 1e6), st.sampled_from([1.0, 2.0, 5.0]))


@st.composite
def blamed_tables(draw) -> tuple[Tables, Blame]:
    """Up to 5 queries of 4 stages on 3 hosts, with ties, zeros and stages that lost nothing."""
    queries = draw(st.integers(1, 5))
    stage_query = draw(st.lists(st.integers(0, queries - 1), min_size=1, max_size=10))
    stage_query += range(queries)
    critical = draw(st.lists(st.booleans(), min_size=len(stage_query), max_size=len(stage_query)))
    tables = named_tables(stage_query, hosts=3, critical=critical)
    stages = st.integers(0, len(stage_query) - 1)
    keys = draw(
        st.lists(
            st.tuples(stages, st.sampled_from(REQUESTS), st.integers(-1, 2)),
            unique=True,
            max_size=12,
        )
    )
    demands = []
    for stage, request, host in keys:
        sources = draw(st.dictionaries(stages, AMOUNTS, max_size=4))
        parts = {KNOWN: draw(AMOUNTS), UNATTRIBUTED: draw(AMOUNTS), **sources}
        demands.append((stage, request, host, sum(parts.values()), list(parts.items())))
    per_stage = st.lists(AMOUNTS, min_size=len(stage_query), max_size=len(stage_query))
    return tables, blame_of_rows(tables, demands, draw(per_stage))
