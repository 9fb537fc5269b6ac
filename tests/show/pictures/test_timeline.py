"""The timeline's payload holds the numbers of the tables."""

from __future__ import annotations

import html
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import iqcar
from iqcar.enums import Resource
from iqcar.errors import UsageError
from iqcar.show.pictures import timeline_payload as module
from iqcar.show.pictures.bins import Bins
from iqcar.show.pictures.timeline import timeline_program, timeline_style
from iqcar.show.pictures.timeline_lanes import (
    HARDLY,
    MAIN_WAITS,
    OVERLAP_MS,
    UNKNOWN,
    lanes_of,
    main_waits,
    resource_waits,
    rows_within,
    slot_left,
)
from tests.support.examples import examples
from tests.support.many_tasks import many_tasks
from tests.support.plotted import diagnosis_of, nothing_read
from tests.support.random_tables import RandomInput, tables_and_waits
from tests.support.real_logs import LOGS, diagnosis_of_log
from tests.support.timeline_payloads import column, payload_of

spans = st.lists(
    st.tuples(
        st.integers(0, 2), st.floats(-20, 120), st.floats(-20, 120), st.floats(0, 5)
    ),
    max_size=12,
)  # fmt: skip


@given(spans=spans, count=st.integers(1, 9))
def test_bins_hold_what_a_naive_integral_holds(spans, count: int) -> None:
    bins = Bins.over(0.0, 100.0, count)
    group, start, end, weight = (np.array(x) for x in zip(*spans, strict=True)) if spans else (
        np.zeros(0, int), np.zeros(0), np.zeros(0), np.zeros(0))  # fmt: skip
    found = bins.amounts(group.astype(int), 3, start, end, weight)
    edges = bins.edges()
    expected = np.zeros((3, count))
    for g, a, b, w in spans:
        for i in range(count):
            expected[g, i] += w * max(min(b, edges[i + 1]) - max(a, edges[i]), 0.0)
    # Sums of differences round at the size of the largest sum, not of each bin.
    assert found == pytest.approx(expected, abs=1e-9)
    values = np.where(weight > 4, np.nan, weight)
    means = bins.means(group.astype(int), 3, start, end, values)
    assert not (means > 4.0 + 1e-9).any()


@given(made=tables_and_waits(max_tasks=30))
def test_tasks_in_one_row_overlap_by_milliseconds_at_most_and_rows_are_no_more_than_needed(
    made: RandomInput,
) -> None:
    tasks = made.tables.tasks
    launch = tasks["launch_ms"].to_numpy(float)
    finish = np.maximum(tasks["finish_ms"].to_numpy(float), launch)
    lanes = lanes_of(made.tables, most=50)
    rows = rows_within(lanes.of_task, launch, finish)
    left = slot_left(launch, finish)
    timed = np.isfinite(launch) & np.isfinite(finish)
    assert (finish - left <= np.minimum(OVERLAP_MS, (finish - launch) / 2))[timed].all()
    assert ((lanes.of_task >= 0) == timed).all()
    for lane in range(len(lanes.names)):
        mine = np.flatnonzero(lanes.of_task == lane)
        for row in np.unique(rows[mine]):
            at = mine[rows[mine] == row]
            at = at[np.lexsort((left[at], launch[at]))]
            assert (launch[at][1:] >= left[at][:-1]).all()
        # A task of no time counts for a moment, as it does while rows are given out.
        moments = [((launch[mine] <= t) & (np.maximum(left, launch + 1)[mine] > t)).sum()
                   for t in launch[mine]]  # fmt: skip
        assert rows[mine].max(initial=0) + 1 <= max([*moments, 1])


@pytest.mark.parametrize("most", [1, 2])
@given(made=tables_and_waits(max_tasks=30))
@examples(25)
def test_lanes_are_hosts_where_executors_are_many_and_no_task_is_lost(
    most: int, made: RandomInput
) -> None:
    lanes = lanes_of(made.tables, most=most)
    assert len(lanes.names) <= most
    tasks = made.tables.tasks
    timed = np.isfinite(tasks[["launch_ms", "finish_ms"]].to_numpy(float)).all(axis=1)
    assert (lanes.of_task[timed] >= 0).all()
    assert (lanes.of_task[timed] < max(len(lanes.names), 1)).all()


@given(made=tables_and_waits())
def test_the_main_wait_is_the_longest_wait_unless_it_is_short_or_unknown(made: RandomInput) -> None:
    sums = resource_waits(made.waits)
    codes = main_waits(made.waits)
    duration = made.waits["duration_ms"].to_numpy(float)
    for task, code in enumerate(codes.tolist()):
        waited = {r: sums[task, i] for i, r in enumerate(Resource) if np.isfinite(sums[task, i])}
        longest = max(waited.values(), default=0.0)
        life = duration[task] + waited.get(Resource.SLOTS, 0.0)
        if longest > 0 and longest >= 0.1 * life:
            assert sums[task, code] == longest
        else:
            assert code in (HARDLY, UNKNOWN)
            assert (code == UNKNOWN) == (not set(waited) - {Resource.SLOTS})
    assert len(MAIN_WAITS) == len(Resource) + 2


@given(made=tables_and_waits(max_tasks=20))
@examples(30)
def test_the_payload_holds_every_task_with_its_times_and_query(made: RandomInput) -> None:
    diagnosis = diagnosis_of(made)
    payload = json.loads(json.dumps(payload_of(diagnosis)))
    tasks = made.tables.tasks
    times = tasks[["launch_ms", "finish_ms"]].to_numpy(float)
    timed = np.isfinite(times).all(axis=1)
    packed = payload["tasks"]
    assert packed["count"] == timed.sum()
    launch = column(packed["launch"]) * payload["tick_ms"] + payload["origin_ms"]
    end = column(packed["end"]) * payload["tick_ms"] + payload["origin_ms"]
    assert sorted(launch) == pytest.approx(sorted(times[timed, 0]))
    assert (end - launch).sum() == pytest.approx((times[timed, 1] - times[timed, 0]).sum())
    names = [*payload["queries"]["id"], None]
    ids = made.tables.queries["query_id"].tolist()
    of = [names[q] for q in column(packed["query"])]
    expected = [ids[q] if q >= 0 else None for q in tasks["query"][timed]]
    assert sorted(map(str, of)) == sorted(map(str, expected))
    lost = column(payload["queries"]["lost_ms"])
    assert lost.sum() == pytest.approx(diagnosis.lost_ms().sum(), rel=1e-5)


@pytest.mark.slow
@given(made=tables_and_waits(max_tasks=20))
@examples(30)
def test_waits_over_time_sum_to_the_querys_waits_within_its_run(made: RandomInput) -> None:
    diagnosis = diagnosis_of(made)
    payload = payload_of(diagnosis)
    ids = payload["queries"]["id"]
    for number, one in payload["waiting"].items():
        row = diagnosis.find_query(ids[int(number)])[0]
        waits = diagnosis.query_waits[diagnosis.query_waits["query"] == row]
        for at, (_, wait) in enumerate(waits.iterrows()):
            name = module.RESOURCE_NAMES[Resource(wait["resource"])]
            assert (name in one["missing"]) == np.isnan(wait["wait_ms"])
            shares = column(one["series"][at]).astype(float)
            total = shares.sum() / 250 * one["most"] * one["width"] * payload["tick_ms"]
            # A byte per bin rounds each to half a 250th of the largest; what lies before the
            # query's start or after its end is cut.
            slack = len(shares) * one["most"] * one["width"] * payload["tick_ms"] / 500
            assert total <= np.nan_to_num(wait["wait_ms"]) + slack + 1e-6


def test_bins_of_large_applications_hold_the_same_task_time_at_every_width(monkeypatch) -> None:
    monkeypatch.setattr(module, "MOST_TASKS", 100)
    diagnosis = many_tasks(5_000)
    payload = payload_of(diagnosis)
    assert "tasks" not in payload
    tasks = diagnosis.tables.tasks
    busy = (tasks["finish_ms"] - tasks["launch_ms"]).sum()
    slots = np.array(payload["lanes"]["slots"])
    for level in payload["bins"]:
        used = column(level["busy"]).reshape(len(slots), level["count"]) / 250
        total = (used.sum(axis=1) * slots).sum() * level["width"] * payload["tick_ms"]
        assert total == pytest.approx(busy, rel=0.01)  # a byte per cell: 0.4 % of the largest
        assert column(level["query"]).max() <= len(payload["queries"]["id"])
    widths = [level["width"] for level in payload["bins"]]
    assert widths == sorted(widths)


@pytest.mark.long
@pytest.mark.parametrize("tasks", [100_000, 250_000])
def test_a_large_payload_stays_below_3_mb(tasks: int) -> None:
    payload = payload_of(many_tasks(tasks, hosts=40, executors=200, cores=8))
    assert len(json.dumps(payload)) < 3_000_000
    assert ("tasks" in payload) == (tasks <= module.MOST_TASKS)


@pytest.mark.long
def test_a_payload_of_many_queries_with_long_names_stays_small_and_says_what_is_folded() -> None:
    diagnosis = many_tasks(20_000, queries=3_000)
    names = [f"query {q} {'x' * 5_000}" for q in range(3_000)]
    tables = diagnosis.tables.with_(
        queries=diagnosis.tables.queries.assign(name=names),
        stages=diagnosis.tables.stages.assign(name=names),
    )
    payload = payload_of(replace(diagnosis, tables=tables))
    assert len(payload["queries"]["id"]) == module.MOST_QUERIES
    assert payload["folded_queries"] == 3_000 - module.MOST_QUERIES
    # Of 3 MB in all, 2 are the tasks' where there are most of them.
    rest = {key: value for key, value in payload.items() if key != "tasks"}
    assert len(json.dumps(rest)) < 1_000_000


def test_nothing_read_is_a_sentence() -> None:
    assert payload_of(nothing_read())["empty"] == "No query ran in this input."


@pytest.mark.slow
@pytest.mark.parametrize("name", LOGS)
def test_the_payload_of_a_real_log(name: str) -> None:
    diagnosis = diagnosis_of_log(name)
    payload = payload_of(diagnosis)
    json.dumps(payload, allow_nan=False)
    if "empty" in payload:
        assert not len(diagnosis.tables.queries)
        return
    assert payload["tasks"]["count"] == len(diagnosis.tables.tasks)


@pytest.mark.slow
@given(made=tables_and_waits(max_tasks=30))
@examples(20)
def test_stages_are_those_that_can_have_lost_time_and_lose_what_their_query_lost(
    made: RandomInput,
) -> None:
    for critical_path in (False, True):
        diagnosis = diagnosis_of(made, critical_path)
        payload = payload_of(diagnosis)
        stages = payload["stages"]
        assert payload["critical_path"] is critical_path
        if critical_path:
            assert column(stages["critical"]).all()
        query, lost = column(stages["query"]), column(stages["lost_ms"])
        of_query = np.bincount(query, lost, len(payload["queries"]["id"]))
        assert (of_query <= column(payload["queries"]["lost_ms"]) * (1 + 1e-5) + 1e-3).all()


def test_lanes_can_be_hosts_and_tell_no_loss_that_nobody_computed() -> None:
    diagnosis = many_tasks(400, hosts=2, executors=4, cores=3)
    shown = iqcar.show.pictures.lanes(diagnosis.tables, diagnosis.waits, "wait", by_host=True)
    assert shown.payload["lanes"]["by"] == "host"
    assert len(shown.payload["lanes"]["name"]) == 2
    assert np.isnan(column(shown.payload["queries"]["lost_ms"])).all()
    assert json.loads(shown.to_json())["mode"] == "wait"
    of_executors = diagnosis.plot.lanes()
    assert len(of_executors.payload["lanes"]["name"]) == 4
    lost = column(of_executors.payload["queries"]["lost_ms"])
    assert lost == pytest.approx(diagnosis.lost_ms(), rel=1e-5)
    with pytest.raises(UsageError, match="no colour by 'x'"):
        diagnosis.plot.lanes("x")


def test_a_notebook_shows_the_timeline_in_a_frame_of_its_own() -> None:
    shown = many_tasks(2_000).plot.timeline("sql-1")
    frame = shown._repr_html_()
    assert frame.startswith('<iframe title="Timeline" sandbox="allow-scripts" style="')
    source = re.search(r' srcdoc="([^"]*)"></iframe>$', frame)
    assert source is not None
    assert html.unescape(source[1]) == shown.to_html()
    assert shown.selected == "app-1/sql-1"


def test_the_program_writes_no_markup_and_runs_no_text() -> None:
    for forbidden in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(",
                      "new Function", "http:", "https:", "import("):  # fmt: skip
        assert forbidden not in timeline_program()
    assert "url(" not in timeline_style()
