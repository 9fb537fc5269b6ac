"""Sources beyond a number per target go into one rest, and every sum stays whole."""

from __future__ import annotations

import functools
import heapq
import json
import random
from pathlib import Path
from tempfile import TemporaryDirectory

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import iqcar
from iqcar import Diagnosis
from iqcar.causes.blame.blame_sources import (
    MOST_SOURCES,
    PAIRS_AT_ONCE,
    batches,
    beyond_largest,
    distinct_pairs,
)
from iqcar.causes.blame.demand_weights import REST
from iqcar.show.json.analyze import json_chunks, result_schema, to_dict, to_json
from iqcar.show.terminal.analyze import print_diagnosis
from iqcar_lab.clusters.event_log import SyntheticLog, stage_info, task_metrics

START = 1_700_000_000_000


def crowd(queries: int, tasks: int = 4, hosts: int = 2, slots: int = 8) -> SyntheticLog:
    """Every query asks at the start; slots serve a task of each in turn, so that all last long."""
    draw = random.Random(1)
    log = SyntheticLog().app("crowd", START).environment(spark_scheduler_mode="FAIR")
    for host in range(hosts):
        log.executor(str(host), f"host-{host}", slots, START)
    number = {"Number of Tasks": tasks}
    for query in range(queries):
        properties = {"spark.sql.execution.id": str(query), "spark.job.description": f"q{query}"}
        info = stage_info(query, submission=START, **number)
        log.sql(query, description=f"q{query}", time=START)
        log.job(query, [info], START, properties).stage(info, properties)
    free = [(START + 100, host) for host in range(hosts) for _ in range(slots)]
    heapq.heapify(free)
    last = [0] * queries
    for number_of, (index, query) in enumerate(
        (i, q) for i in range(tasks) for q in range(queries)
    ):
        launch, host = heapq.heappop(free)
        run = 50 + draw.randrange(400)
        waited = draw.randrange(run // 3)
        log.task(
            number_of, stage=query, index=index, launch=launch, finish=launch + run,
            host=f"host-{host}", executor=str(host), metrics=_metrics(run, waited, draw),
        )  # fmt: skip
        heapq.heappush(free, (launch + run, host))
        last[query] = launch + run
    for query in range(queries):
        log.stage_end(stage_info(query, submission=START, **number), last[query])
        log.job_end(query, last[query]).sql_end(query, last[query])
    return log.end(max(last) + 1000)


def _metrics(run: int, waited: int, draw: random.Random) -> dict[str, object]:
    return task_metrics(
        Executor_Run_Time=run - 10,
        Executor_CPU_Time=int((run - waited) * 0.6e6),
        JVM_GC_Time=0,
        Shuffle_Read_Metrics={
            "Remote Blocks Fetched": 8,
            "Local Blocks Fetched": 0,
            "Fetch Wait Time": waited,
            "Remote Bytes Read": draw.randrange(1 << 20, 8 << 20),
            "Remote Bytes Read To Disk": 0,
            "Local Bytes Read": 0,
            "Total Records Read": 1000,
        },
    )


QUERIES = 60
ENTRIES = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 9), st.integers(0, 1000)), min_size=1, max_size=80
)


@functools.cache
def diagnosed(all_sources: bool) -> Diagnosis:
    with TemporaryDirectory() as folder:
        tables = iqcar.read(crowd(QUERIES).write(Path(folder) / "log"))
    return iqcar.diagnose(tables, all_sources=all_sources)


def columns(entries: list[tuple[int, int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    target, source, size = (np.array(column) for column in zip(*entries, strict=True))
    return target, source, size.astype(np.float64)


@given(ENTRIES, st.integers(1, 6))
def test_the_largest_sources_are_kept_and_no_single_one_is_folded(
    entries: list[tuple[int, int, int]], most: int
) -> None:
    folded = beyond_largest(*columns(entries), most)
    for target in {t for t, _, _ in entries}:
        total: dict[int, int] = {}
        for t, source, size in entries:
            if t == target:
                total[source] = total.get(source, 0) + size
        small = {s for (t, s, _), f in zip(entries, folded, strict=True) if f and t == target}
        if len(total) <= most + 1:
            assert small == set()
        else:
            kept = sorted(total, key=lambda s: (-total[s], s))[:most]
            assert small == set(total) - set(kept)


@given(ENTRIES, st.randoms(use_true_random=False))
def test_the_order_of_entries_changes_nothing(
    entries: list[tuple[int, int, int]], random: object
) -> None:
    order = list(range(len(entries)))
    random.shuffle(order)  # type: ignore[attr-defined]
    folded = beyond_largest(*columns(entries), 3)
    again = beyond_largest(*columns([entries[at] for at in order]), 3)
    assert again.tolist() == folded[order].tolist()


@given(ENTRIES)
def test_a_limit_as_large_as_the_number_of_sources_folds_nothing(
    entries: list[tuple[int, int, int]],
) -> None:
    assert not beyond_largest(*columns(entries), 10).any()


@given(ENTRIES)
def test_distinct_pairs_are_in_order_and_name_each_entry(
    entries: list[tuple[int, int, int]],
) -> None:
    target, source, _ = columns(entries)
    of_target, of_source, member = distinct_pairs(target, source)
    pairs = list(zip(of_target.tolist(), of_source.tolist(), strict=True))
    assert pairs == sorted({(t, s) for t, s, _ in entries})
    assert [pairs[at] for at in member] == [(t, s) for t, s, _ in entries]


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 50)), min_size=1), st.integers(1, 80))
def test_batches_divide_the_groups_and_never_an_owner(
    groups: list[tuple[int, int]], most: int
) -> None:
    owner, cost = (np.array(column) for column in zip(*groups, strict=True))
    found = batches(owner, cost.astype(np.float64), most)
    assert (np.sum(found, axis=0) == 1).all()
    for batch in found:
        owners = set(owner[batch].tolist())
        assert not owners & set(owner[~batch].tolist())
        assert cost[batch].sum() <= most or len(owners - {*owner[cost == 0].tolist()}) <= 1


@pytest.mark.slow
def test_every_sum_is_the_same_folded_or_not() -> None:
    few, every = diagnosed(False), diagnosed(True)
    assert (few.blame.sources["kind"] == REST).any()
    assert not (every.blame.sources["kind"] == REST).any()
    for column in ("beta", "lost_ms"):
        sums = [d.blame.sources.groupby("demand")[column].sum() for d in (few, every)]
        assert sums[0].to_numpy() == pytest.approx(sums[1].to_numpy())
    assert few.lost_to_others_ms() == pytest.approx(every.lost_to_others_ms())
    aggressive = [
        d.graph.aggressive_queries().sort_values("query", ignore_index=True) for d in (few, every)
    ]
    for column in ("query", "victims", "worst_victim", "resource"):
        assert aggressive[0][column].tolist() == aggressive[1][column].tolist()
    for column in ("dor", "lost_ms"):
        assert aggressive[0][column].to_numpy() == pytest.approx(aggressive[1][column].to_numpy())


@pytest.mark.slow
def test_the_rest_of_a_target_is_its_total_less_what_is_named() -> None:
    few, every = diagnosed(False), diagnosed(True)
    for query in range(QUERIES):
        shown = {row["source_query_id"]: row for row in few.graph.blame_rows(query)}
        whole = {row["source_query_id"]: row for row in every.graph.blame_rows(query)}
        rest = next(row for row in few.graph.blame_rows(query) if row["kind"] == "rest")
        named = {one for one in shown if one is not None}
        assert len(named) == MOST_SOURCES + 1  # and itself
        hidden = [row for one, row in whole.items() if one is not None and one not in named]
        assert rest["source_name"] == f"{len(hidden)} other queries"
        for column in ("share", "dor", "lost_ms", "share_of_duration"):
            assert rest[column] == pytest.approx(sum(row[column] for row in hidden), abs=1e-9)
            assert all(shown[one][column] == pytest.approx(whole[one][column]) for one in named)
        for column in ("by_resource", "by_host"):
            for part, ms in rest[column].items():
                assert ms == pytest.approx(sum(row[column].get(part, 0.0) for row in hidden))
        largest_hidden = max(row["lost_ms"] for row in hidden)
        others = [row for row in shown.values() if row["kind"] == "query"]
        assert min(row["lost_ms"] for row in others) >= largest_hidden * (1 - 1e-9)


@pytest.mark.parametrize("level", range(7))
def test_dor_towards_a_target_sums_to_one_at_every_level_with_the_rest(level: int) -> None:
    graph = diagnosed(False).graph
    frame = graph.dor_by_target(level) if level >= 5 else graph.vertices(level)
    column = "target_query" if level >= 5 else "target"
    assert frame.groupby(column)["dor"].sum().to_numpy() == pytest.approx(np.ones(QUERIES))


def test_pairs_in_many_batches_are_the_pairs_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = diagnosed(False)
    assert PAIRS_AT_ONCE > QUERIES**2
    monkeypatch.setattr("iqcar.causes.blame.blame_sources.PAIRS_AT_ONCE", 500)
    monkeypatch.setattr("iqcar.causes.blame.blame_sources.PAIRS_PER_TASK", 1)
    batched = iqcar.diagnose(whole.tables, expected=False)
    key = ["demand", "kind", "source_stage"]
    one, two = (d.blame.sources.sort_values(key, ignore_index=True) for d in (whole, batched))
    assert one[key].equals(two[key])
    for column in ("beta", "lost_ms"):
        assert two[column].to_numpy() == pytest.approx(one[column].to_numpy())
    assert batched.blame.folded.to_numpy(float) == pytest.approx(whole.blame.folded.to_numpy(float))


@pytest.mark.slow
def test_rules_weigh_what_is_in_rests() -> None:
    from iqcar.rules.recorded_setup import gather

    few, every = (gather(d.tables, d.graph) for d in (diagnosed(False), diagnosed(True)))
    assert few.suffered_ms == pytest.approx(every.suffered_ms)
    assert few.inflicted_ms == pytest.approx(every.inflicted_ms)


def test_the_json_of_a_crowd_follows_the_schema_and_names_the_rest() -> None:
    result = json.loads(to_json(diagnosed(False)))
    jsonschema.Draft202012Validator(json.loads(result_schema())).validate(result)
    for query in result["queries"]:
        kinds = [row["kind"] for row in query["blame"]]
        assert kinds.count("rest") == 1
        assert sum(row["share"] for row in query["blame"]) == pytest.approx(1.0)


@pytest.mark.slow
@pytest.mark.parametrize("all_sources", [False, True])
def test_the_json_is_written_in_pieces_that_make_the_same_text(all_sources: bool) -> None:
    diagnosis = diagnosed(all_sources)
    pieces = list(json_chunks(diagnosis))
    whole = json.dumps(to_dict(diagnosis), indent=1, ensure_ascii=False) + "\n"
    assert json.loads(b"".join(pieces)) == json.loads(whole)
    assert max(map(len, pieces)) < len(b"".join(pieces)) / 2


def test_rows_of_blame_grow_with_the_queries_not_with_their_square() -> None:
    few, every = diagnosed(False), diagnosed(True)
    assert len(every.graph.who_hurts_whom()) >= QUERIES * QUERIES
    assert len(few.graph.who_hurts_whom()) <= QUERIES * (MOST_SOURCES + 4)


@pytest.mark.slow
def test_text_page_and_pictures_say_what_the_rest_is(capsys: pytest.CaptureFixture[str]) -> None:
    from iqcar.show.html import render_page

    diagnosis = diagnosed(False)
    print_diagnosis(diagnosis)
    assert "more" in capsys.readouterr().out
    assert "other queries" in render_page(diagnosis)
    assert "other queries" in diagnosis._repr_html_()
    assert len(diagnosis.graph.to_networkx()) > 0
