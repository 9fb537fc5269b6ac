"""Pictures over time, of stragglers and of topics hold the tables' numbers."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given

import iqcar
from iqcar.apps.notebook import ShownWhatIf
from iqcar.base.units import duration
from iqcar.causes.stragglers.features import build_features
from iqcar.enums import Resource
from iqcar.model.waits.columns import requests_of
from iqcar.show.html.page import render_page
from iqcar.show.pictures import cluster_slots, compare_stragglers, executors, topic_mixtures
from iqcar.show.pictures.bins import Bins
from iqcar.show.pictures.hosts import host_series, slot_shares, span_of
from iqcar.show.pictures.straggler_boxes import worst_stage
from iqcar.show.pictures.theme import legend_above
from iqcar.show.pictures.timeline_lanes import query_waiting
from iqcar.tables import SAMPLES
from iqcar_lab.clusters.frames import frame
from tests.support.contended_log import contended_log
from tests.support.examples import examples
from tests.support.many_tasks import many_tasks
from tests.support.plotted import diagnosis_of
from tests.support.random_tables import RandomInput, tables_and_waits
from tests.support.shared_cluster_logs import read, three_of_four_held


@pytest.mark.slow
@given(made=tables_and_waits())
@examples(30)
def test_a_timelines_areas_hold_the_waits_within_the_targets_run(made: RandomInput) -> None:
    diagnosis = diagnosis_of(made)
    for target in diagnosis.targets:
        for one in query_waiting(diagnosis.tables, diagnosis.waits, [target], 50):
            start, end = diagnosis.tables.queries[["start_ms", "end_ms"]].iloc[target]
            mine = (diagnosis.tables.tasks["query"] == target).to_numpy()
            tasks, waits = diagnosis.tables.tasks[mine], diagnosis.waits[mine]
            launch, finish = (tasks[c].to_numpy(float) for c in ("launch_ms", "finish_ms"))
            for at, resource in enumerate(Resource):
                expected = 0.0
                for request in requests_of(resource):
                    wait = waits[f"{request}_ms"].to_numpy(float)
                    for w, a, b in zip(wait, launch, finish, strict=True):
                        low, high = (a - w, a) if resource is Resource.SLOTS else (a, b)
                        if not w > 0 or not np.isfinite(low + high):
                            continue
                        inside = max(min(high, end) - max(low, start), 0.0)
                        expected += w * inside / (high - low) if high > low else 0.0
                found = one.waiting[at].sum() * one.width_ms
                assert found == pytest.approx(expected, abs=1e-6)


def test_slots_in_use_are_a_share_of_those_that_executors_offered() -> None:
    diagnosis = many_tasks(400, hosts=2, executors=4, cores=3)
    span = span_of(diagnosis.tables)
    series = host_series(diagnosis.tables, Bins.over(*span, 50))
    tasks = diagnosis.tables.tasks
    length = span[1] - span[0]
    for host in range(2):
        mine = tasks[tasks["host"] == host]
        busy = (mine["finish_ms"] - mine["launch_ms"]).sum()
        assert series.running[host].mean() * length == pytest.approx(busy)
        assert series.offered[host] == pytest.approx(6.0)
        assert slot_shares(series, host).mean() == pytest.approx(busy / length / 6.0)
    assert not series.sampled.any()
    figure = iqcar.show.pictures.hosts(diagnosis.tables)
    assert "CPU, disks and network were not recorded" in figure.layout.title.text
    assert {trace.name for trace in figure.data} == {"slots in use"}, "left out, not zero"


def test_samples_are_drawn_where_they_are_and_gaps_stay_gaps() -> None:
    diagnosis = many_tasks(400, hosts=2, executors=4, cores=3)
    tables = diagnosis.tables
    start, end = span_of(tables)
    seconds = np.arange(start + 1000, start + (end - start) / 2, 1000.0)
    n = len(seconds)
    samples = frame(
        SAMPLES, n, app=np.zeros(n), host=np.zeros(n), time_ms=seconds,
        duration_ms=np.full(n, 1000.0), cpu_idle=np.full(n, 30.0), cpu_iowait=np.zeros(n),
        disk_busy=np.full(n, 0.25), net_in_bytes=np.full(n, 2e6), net_out_bytes=np.full(n, 5e5),
    )  # fmt: skip
    series = host_series(tables.with_(samples=samples), Bins.over(start, end, 40))
    assert series.sampled.tolist() == [True, False]
    cpu = series.quantities["host_cpu"]
    assert np.nanmax(cpu[0]) == pytest.approx(0.7)
    assert np.nanmin(cpu[0]) == pytest.approx(0.7)
    assert np.isnan(cpu[0][25:]).all(), "nobody sampled then"
    assert np.isnan(cpu[1]).all()
    assert np.nanmax(series.quantities["host_net_in"][0]) == pytest.approx(2e6)
    figure = iqcar.show.pictures.hosts(tables.with_(samples=samples))
    (drawn,) = (t for t in figure.data if t.name == "CPU in use")
    told = [v for v in drawn.y if v is not None]
    assert 0 < len(told) < len(drawn.y)
    assert told == pytest.approx([70.0] * len(told))


def test_boxes_compare_stragglers_as_the_paper_does(shared_logs) -> None:
    log = shared_logs / "eventlog_4nodes_8cores_dynamic_alloc.zstd"
    diagnosis = iqcar.diagnose(iqcar.read(log), expected=False)
    features = build_features(diagnosis.tables, diagnosis.waits, 3000.0)
    rows = diagnosis.stragglers.stragglers
    stage = worst_stage(diagnosis.stragglers)
    slow = rows["task"].to_numpy()[rows["stage"] == stage]
    found = compare_stragglers(features, slow, stage)
    assert [one.p for one in found] == sorted(one.p for one in found)
    for one in found:
        both = np.concatenate([one.slow, one.normal])
        # By hand: the mean of the quartiles' differences, in the stage's interquartile ranges.
        by_hand = np.mean([np.quantile(one.slow, q) - np.quantile(one.normal, q)
                           for q in (0.25, 0.5, 0.75)])  # fmt: skip
        width = np.quantile(both, 0.75) - np.quantile(both, 0.25) or both.std()
        assert one.difference == pytest.approx(by_hand / width)
        assert one.p == pytest.approx(normal_rank_sum(one.slow, one.normal), abs=1e-9)
    figure = diagnosis.plot.straggler_boxes()
    assert [t.name for t in figure.data[:2]] == ["stragglers", "other tasks"]
    assert figure.data[0].median[0] >= figure.data[0].q1[0]
    # The page has one picture for both looks: only the template is another.
    dark = diagnosis.plot.straggler_boxes(dark=True)
    assert dark.layout.template != figure.layout.template
    dark.layout.template = figure.layout.template
    assert dark == figure
    # No two panels lie on each other.
    axes = [(figure.layout[f"xaxis{n or ''}"].domain, figure.layout[f"yaxis{n or ''}"].domain)
            for n in (None, *range(2, len(figure.data) // 2 + 1))]  # fmt: skip
    for (x, y), (other_x, other_y) in itertools.combinations(axes, 2):
        assert x[1] < other_x[0] or other_x[1] < x[0] or y[1] < other_y[0] or other_y[1] < y[0]


def normal_rank_sum(slow: np.ndarray, normal: np.ndarray) -> float:
    """Wilcoxon's rank-sum test by counting pairs (Mann and Whitney), ties as halves."""
    wins = sum(np.sum(x > normal) + 0.5 * np.sum(x == normal) for x in slow)
    n1, n2 = len(slow), len(normal)
    _, ties = np.unique(np.concatenate([slow, normal]), return_counts=True)
    n = n1 + n2
    variance = n1 * n2 / 12 * (n + 1 - np.sum(ties**3.0 - ties) / (n * (n - 1)))
    z = (wins - n1 * n2 / 2) / math.sqrt(variance)
    return math.erfc(abs(z) / math.sqrt(2))


def test_mixtures_sum_to_one_and_weigh_stages_by_stragglers(shared_logs) -> None:
    log = shared_logs / "eventlog_v2_local-1623876083964"
    topics = iqcar.diagnose(iqcar.read(log), expected=False, topics=True).topics
    by_stage, by_query = topic_mixtures(topics, "stage"), topic_mixtures(topics, "query")
    assert by_stage.rows
    assert by_query.rows
    for found in (by_stage, by_query):
        assert found.share.sum(axis=1) == pytest.approx(1.0)
        assert found.stragglers == sorted(found.stragglers, reverse=True)
    query_of = dict(zip(topics.jobs["stage"], topics.jobs["query"], strict=True))
    for query, share in zip(by_query.rows, by_query.share, strict=True):
        mine = [i for i, stage in enumerate(by_stage.rows) if query_of[stage] == query]
        weights = np.array([by_stage.stragglers[i] for i in mine])
        assert share == pytest.approx(weights @ by_stage.share[mine] / weights.sum())


def test_areas_sum_to_the_slots_held_and_idle_ones_are_apart(tmp_path: Path) -> None:
    found = iqcar.diagnose(read(three_of_four_held(busy=10), tmp_path), expected=False)
    (cluster,) = cluster_slots(found.tables, found.waits, 29)
    assert cluster.names == ["nightly", "morning"]  # from 1 s to 30 s, second by second
    held = (cluster.busy + cluster.idle).sum(axis=0)
    assert held[:2] == pytest.approx(3)
    assert held[2:24] == pytest.approx(4)
    assert held[24:] == pytest.approx(3)
    assert cluster.busy[0][:9] == pytest.approx(3)
    assert cluster.idle[0][9:] == pytest.approx(3)
    assert cluster.missing[4:15] == pytest.approx(3)
    assert cluster.missing[24:] == pytest.approx(0, abs=1e-9)


@pytest.mark.slow
def test_the_figure_has_an_area_for_each_application_and_a_line_for_what_lacked(
    tmp_path: Path,
) -> None:
    found = iqcar.diagnose(read(three_of_four_held(busy=10), tmp_path), expected=False)
    figure = found.plot.executors()
    names = [trace.name for trace in figure.data if np.max(trace.y) > 0]
    assert names[:2] == ["nightly", "nightly, idle"]
    assert "morning" in names
    assert figure.data[-1].name == "lacking because others held them"
    page = render_page(found)
    assert "Who held the cluster's slots" in page.replace("&#39;", "'")
    assert 'id="executors-series"' in page


def test_the_legend_has_room_for_every_name_that_it_shows(tmp_path: Path) -> None:
    found = iqcar.diagnose(read(three_of_four_held(busy=10), tmp_path), expected=False)
    names = [f"{name} of all orders and customers" for name in ("nightly", "morning")]
    applications = found.tables.applications.assign(name=names)
    figure = executors(found.tables.with_(applications=applications), found.waits)
    named = [trace.name for trace in figure.data if trace.showlegend is not False]
    assert any(name.endswith(", idle") for name in named)
    assert figure.layout.margin.t == legend_above(named)["margin"]["t"]


def test_one_application_alone_has_no_such_picture(tmp_path: Path) -> None:
    found = iqcar.diagnose(read([contended_log()], tmp_path), expected=False)
    assert "shared a cluster" in executors(found.tables, found.waits).layout.annotations[0].text
    assert 'id="executors-series"' not in render_page(found)


HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def without_etl(tmp_path_factory: pytest.TempPathFactory) -> ShownWhatIf:
    path = tmp_path_factory.mktemp("whatif") / "app"
    return iqcar.diagnose(iqcar.read(contended_log().write(path))).what_if(remove="etl")


def marks(svg: str, tag: str) -> list[dict[str, str]]:
    return [one.attrib for one in ElementTree.fromstring(svg).iter() if one.tag.endswith(tag)]  # noqa: S314


def test_a_dot_stands_where_the_duration_is_on_the_axis(without_etl: ShownWhatIf) -> None:
    (row,) = without_etl.queries.to_dict("records")
    svg = without_etl.plot.durations().svg
    recorded, predicted = [float(dot["cx"]) for dot in marks(svg, "circle")][2:]
    zero = float(marks(svg, "line")[0]["x1"])
    assert (predicted - zero) / (recorded - zero) == pytest.approx(
        row["predicted_ms"] / row["recorded_ms"], abs=0.001
    )
    bar = marks(svg, "rect")[1]
    low, high = float(bar["x"]), float(bar["x"]) + float(bar["width"])
    assert low <= predicted <= high
    assert (high - zero) / (recorded - zero) == pytest.approx(
        row["high_ms"] / row["recorded_ms"], abs=0.001
    )


def test_waits_and_devices_say_the_answer_s_numbers(without_etl: ShownWhatIf) -> None:
    (row,) = without_etl.queries.to_dict("records")
    before, after = (duration(row[f"slots_wait_{when}_ms"]) for when in ("before", "after"))
    assert f"{before} → {after}" in without_etl.plot.waits().svg
    said = re.findall(r">\u2068(\d+ %) → (\d+ %)", without_etl.plot.devices().svg)
    (device,) = without_etl.capacities.to_dict("records")
    busy = (device["busy_before"], device["busy_after"])
    assert said == [tuple(f"{100 * share:.0f} %" for share in busy)]


def test_a_notebook_shows_the_verdict_and_the_durations(without_etl: ShownWhatIf) -> None:
    shown = without_etl._repr_html_()
    assert "without etl" in shown
    assert without_etl.plot.durations().svg in shown
    assert "self-check" in shown


def test_names_in_pictures_stay_text(without_etl: ShownWhatIf) -> None:
    hostile = replace(without_etl, queries=without_etl.queries.assign(name=HOSTILE))
    assert HOSTILE not in hostile._repr_html_()
    assert "&lt;script&gt;" in hostile.plot.durations().svg
