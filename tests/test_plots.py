"""Figures show the numbers of the graph, whatever the names, and say so where there are none."""

from __future__ import annotations

import importlib
import math
import re
import subprocess
import sys
from html.parser import HTMLParser
from itertools import combinations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import iqcar
from conftest import shared_logs_folder
from iqcar.errors import UsageError
from iqcar.kinds import BlameKind, Resource
from iqcar.plots import (
    compare_stragglers,
    heatmap_cells,
    matrix_cells,
    stage_waits,
    topic_mixtures,
)
from iqcar.plots.bins import Bins
from iqcar.plots.host_series import host_series, span_of
from iqcar.plots.hosts import slot_shares
from iqcar.plots.labels import distinct, label, safe, wrapped
from iqcar.plots.lane_rows import lanes_of
from iqcar.plots.palette import BLAME_COLOURS, RESOURCE_COLOURS, query_colours, stable_colours
from iqcar.plots.straggler_boxes import worst_stage
from iqcar.plots.waiting import query_waiting
from iqcar.stragglers import build_features
from iqcar.tables import SAMPLES
from iqcar.waits import requests_of
from many_tasks import many_tasks
from plotted import HOSTILE, assert_only_text, diagnosis_of, nothing_read, texts_of
from random_tables import RandomInput, frame, tables_and_waits

lanes_module = importlib.import_module("iqcar.plots.lanes")

LOGS = (
    sorted(p.name for p in shared_logs_folder().iterdir() if p.name != "README.md")
    if shared_logs_folder().is_dir()
    else []
)


def column_sums(figure) -> dict[int, float]:
    """Values of a Sankey's links by the column that they end in."""
    (trace,) = figure.data
    depth = dict.fromkeys(range(len(trace.node.label)), 0)
    for one, other in sorted(zip(trace.link.source, trace.link.target, strict=True)):
        depth[other] = depth[one] + 1
    sums: dict[int, float] = {}
    for other, value in zip(trace.link.target, trace.link.value, strict=True):
        sums[depth[other]] = sums.get(depth[other], 0.0) + value
    return sums


@given(made=tables_and_waits())
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
def test_links_between_two_columns_of_a_sankey_sum_to_the_targets_dor(made: RandomInput) -> None:
    diagnosis = diagnosis_of(made)
    for target in diagnosis.targets:
        figure = iqcar.plots.sankey(diagnosis.graph, target, most=2)
        if diagnosis.graph.lost_ms(target) <= 0:
            assert not figure.data
            assert len(texts_of(figure)) >= 1
            continue
        assert column_sums(figure) == pytest.approx(dict.fromkeys(range(1, 6), 1.0))


@given(made=tables_and_waits())
@settings(max_examples=25)
def test_source_nodes_of_a_sankey_hold_the_queries_dor(made: RandomInput) -> None:
    diagnosis = diagnosis_of(made)
    by_target = diagnosis.graph.dor_by_target(6)
    for target in diagnosis.targets:
        figure = iqcar.plots.sankey(diagnosis.graph, target, most=100)
        if not figure.data:
            continue
        (trace,) = figure.data
        first = sum(node not in set(trace.link.target) for node in range(len(trace.node.label)))
        sums = np.bincount(trace.link.source, trace.link.value)[:first]
        mine = by_target[(by_target["target_query"] == target) & (by_target["dor"] > 0)]
        assert sorted(sums[sums > 0]) == pytest.approx(sorted(mine["dor"]))


@given(made=tables_and_waits())
@settings(max_examples=40)
def test_cells_of_a_heatmap_sum_to_what_the_target_lost(made: RandomInput) -> None:
    diagnosis = diagnosis_of(made)
    graph = diagnosis.graph
    vertices = graph.vertices(3)
    for target in diagnosis.targets:
        args = (graph, diagnosis.tables, diagnosis.waits, diagnosis.blame, target)
        cells = heatmap_cells(*args)
        assert cells.value.sum() == pytest.approx(graph.lost_ms(target))
        mine = vertices[vertices["target"] == target]
        for i, request in enumerate(cells.requests):
            for j, host in enumerate(cells.hosts):
                at = mine[(mine["request"] == request.value) & (mine["host"] == host)]
                assert cells.value[i, j] == pytest.approx(at["lost_ms"].sum())
        by_stage = [heatmap_cells(*args, stage=s).value.sum() for s in set(mine["stage"])]
        assert sum(by_stage) == pytest.approx(graph.lost_ms(target))
        by_resource = [heatmap_cells(*args, resource=r).value.sum() for r in Resource]
        assert sum(by_resource) == pytest.approx(graph.lost_ms(target))
        ratp = heatmap_cells(*args, "ratp").value.sum()
        demands = diagnosis.blame.demands
        assert ratp == pytest.approx(demands["ratp"][demands["query"] == target].sum())


@given(made=tables_and_waits())
@settings(max_examples=25)
def test_a_wait_that_nobody_recorded_is_no_zero_in_a_heatmap(made: RandomInput) -> None:
    diagnosis = diagnosis_of(made)
    for target in diagnosis.targets:
        args = (diagnosis.graph, diagnosis.tables, diagnosis.waits, diagnosis.blame, target)
        cells = heatmap_cells(*args)
        assert not (cells.missing & (cells.value > 0)).any()
        figure = iqcar.plots.heatmap(*args)
        if not figure.data:
            continue
        hatched = sum(len(trace.x) for trace in figure.data if trace.type == "bar")
        assert hatched == cells.missing.sum()
        drawn = np.array(figure.data[0].z, dtype=float)
        assert np.isnan(drawn[cells.missing]).all()


@pytest.mark.parametrize("most", [2, 3, 100])
@given(made=tables_and_waits())
@settings(max_examples=25)
def test_a_matrix_sums_to_what_all_queries_lost(most: int, made: RandomInput) -> None:
    graph = diagnosis_of(made).graph
    lost = sum(graph.lost_ms(int(target)) for target in graph.targets)
    cells = matrix_cells(graph, most=most)
    assert cells.value.sum() == pytest.approx(lost)
    parts = [matrix_cells(graph, resource=resource, most=most).value.sum() for resource in Resource]
    assert sum(parts) == pytest.approx(lost)
    assert len([s for s in cells.sources if s >= -2]) <= max(most, 2)
    assert len(cells.targets) <= max(most, 2)
    if most == 100 and lost > 0:
        whole = graph.matrix()
        assert sorted(cells.value[cells.value > 0]) == pytest.approx(
            sorted(whole.to_numpy()[whole.to_numpy() > 0])
        )


@given(made=tables_and_waits())
@settings(max_examples=25)
def test_waits_of_stages_sum_to_the_querys_waits(made: RandomInput) -> None:
    diagnosis = diagnosis_of(made)
    tasks = diagnosis.tables.tasks
    everywhere = (tasks["stage"] >= 0).all()
    for target in diagnosis.targets:
        found = stage_waits(diagnosis.tables, diagnosis.waits, target)
        rows = diagnosis.query_waits[diagnosis.query_waits["query"] == target]
        if not everywhere or not (tasks["query"] == target).any():
            continue
        sums = np.nansum(found.wait_ms, axis=0)
        assert sums == pytest.approx(np.nan_to_num(rows["wait_ms"].to_numpy()))
        unknown = np.isnan(found.wait_ms).all(axis=0)
        assert (unknown == rows["wait_ms"].isna().to_numpy()).all()
        figure = iqcar.plots.waits(diagnosis.tables, diagnosis.waits, target)
        drawn = sum(np.sum(t.x) for t in figure.data if t.name != "not recorded")
        assert drawn * 1e3 == pytest.approx(sums.sum())


@given(made=tables_and_waits())
@settings(max_examples=5, suppress_health_check=[HealthCheck.too_slow])
def test_every_picture_of_any_tables_can_be_written(made: RandomInput) -> None:
    assert_every_picture(diagnosis_of(made))


def assert_every_picture(diagnosis, queries: int = 3) -> None:
    """Draw every picture in both looks; it says something, and holds only text."""
    plot = diagnosis.plot
    ids = diagnosis.tables.queries["query_id"].tolist()
    chosen = [ids[t] for t in diagnosis.targets[:queries]] or ids[:1]
    figures = [
        plot.matrix(),
        plot.matrix("dor", dark=True),
        plot.matrix(resource="cpu"),
        plot.lanes(),
        plot.lanes("wait", by_host=True, dark=True),
        plot.hosts(),
        plot.straggler_boxes(),
        plot.mixtures(),
        plot.timeline(),
    ]
    for query in chosen:
        figures += [
            plot.sankey(query),
            plot.heatmap(query),
            plot.heatmap(query, "ratp", resource="io", dark=True),
            plot.waits(query),
            plot.timeline(query, dark=True),
            plot.straggler_boxes(query),
        ]
    for figure in figures:
        assert figure.to_json()
        assert figure.to_html(include_plotlyjs=False)
        assert texts_of(figure), "a picture without a word"
        assert_only_text(figure)


class Tags(HTMLParser):
    """Tags and attributes of some HTML."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, list[str]]] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs) -> None:
        self.found.append((tag, [name for name, _ in attrs]))


def assert_safe_html(text: str) -> None:
    """Only our own elements, nothing that runs or loads, and not too long for a notebook."""
    ours = {"div", "p", "b", "ul", "li", "table", "thead", "tbody", "tr", "th", "td", "br", "small",
            "span", "code", "details", "summary"}  # fmt: skip
    for tag, attributes in Tags(text).found:
        assert tag in ours
        assert set(attributes) <= {"style", "scope", "role", "aria-label", "title"}
    assert len(text) < 60_000
    assert not set(text) & set("\u202e\u2028\u0000\u001b")


@pytest.mark.parametrize("name", LOGS)
def test_every_picture_of_a_real_log(name: str, shared_logs) -> None:
    diagnosis = iqcar.diagnose(iqcar.read(shared_logs / name), expected=False, topics=True)
    assert_every_picture(diagnosis)
    assert_only_text(diagnosis.plot.mixtures("stage"))
    assert_safe_html(diagnosis._repr_html_())


def test_pictures_of_nothing_are_a_sentence() -> None:
    diagnosis = nothing_read()
    figure = diagnosis.plot.matrix()
    assert not figure.data
    assert figure.layout.annotations[0].text == "No query lost time that could be measured."
    with pytest.raises(UsageError, match="there is no query to draw"):
        diagnosis.plot.sankey()
    for figure in (
        diagnosis.plot.timeline(),
        diagnosis.plot.lanes(),
        diagnosis.plot.hosts(),
        diagnosis.plot.straggler_boxes(),
        diagnosis.plot.mixtures(),
    ):
        assert not figure.data
        assert texts_of(figure)
    assert "No query lost time" in diagnosis._repr_html_()


def test_names_are_shown_as_text_wherever_they_come_from(hostile_diagnosis) -> None:
    assert_every_picture(hostile_diagnosis, queries=len(HOSTILE))
    assert_safe_html(hostile_diagnosis._repr_html_())


@pytest.fixture(scope="module")
def hostile_diagnosis():
    """Random tables with enough tasks that all queries lose time, and names that attack."""
    from random_tables import random_input

    made = random_input(160, 2, 3, 4, len(HOSTILE), 6, 7)
    tables = made.tables
    queries = tables.queries.assign(name=list(HOSTILE))
    names = [HOSTILE[i % len(HOSTILE)] for i in range(len(tables.stages))]
    hosts = tables.hosts.assign(host=list(HOSTILE[: len(tables.hosts)]))
    hostile = tables.with_(queries=queries, stages=tables.stages.assign(name=names), hosts=hosts)
    return diagnosis_of(RandomInput(hostile, made.waits, "hostile names"))


@given(made=tables_and_waits())
def test_bars_of_blame_in_a_notebook_are_as_long_as_what_was_lost(made: RandomInput) -> None:
    diagnosis = diagnosis_of(made)
    text = diagnosis._repr_html_()
    assert_safe_html(text)
    bars = re.findall(r'<div role="img".*?</div>', text)
    assert len(bars) == len(diagnosis.targets)
    durations = diagnosis.tables.queries["duration_ms"].to_numpy()
    for bar, target in zip(bars, diagnosis.targets, strict=True):
        lost = diagnosis.graph.lost_ms(target)
        known = durations[target] > 0
        share = lost / durations[target] if known else float(lost > 0)
        widths = [float(w) for w in re.findall(r"width:([\d.]+)%", bar)]
        # Two decimals of a percent for each piece.
        assert sum(widths) == pytest.approx(100 * share, abs=0.01 * len(widths) + 0.01)


@given(made=tables_and_waits(max_tasks=30))
@settings(max_examples=30)
def test_lanes_hold_all_task_time_one_by_one_and_in_bins(made: RandomInput) -> None:
    from iqcar.plots import lanes as draw

    tables = made.tables
    tasks = tables.tasks
    times = tasks[["launch_ms", "finish_ms"]].to_numpy(float)
    timed = np.isfinite(times).all(axis=1)
    whole = np.maximum(times[timed, 1] - times[timed, 0], 0).sum()
    figure = draw(tables, made.waits, "wait")
    assert sum(np.sum(t.x) for t in figure.data) == pytest.approx(whole)
    found = lanes_of(tables, most=lanes_module.MOST_LANES)
    if not found.names:
        return
    kinds = lanes_module._by_query(tables)
    binned = lanes_module._bins(tables, found, kinds, span_of(tables))
    total = 0.0
    for trace in binned:
        lane = np.floor(np.array(trace.base) + 0.5 * np.array(trace.y)).astype(int)
        total += (np.array(trace.y) / 0.9 * found.slots[lane]).sum() * trace.width
    assert total == pytest.approx(whole, rel=1e-6, abs=1e-6)


@given(made=tables_and_waits())
@settings(max_examples=30)
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
    figure = iqcar.plots.hosts(diagnosis.tables)
    assert "CPU, disks and network were not recorded" in figure.layout.title.text
    assert sum(trace.type == "bar" for trace in figure.data) == 2, "hatched, not zero"


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
    figure = iqcar.plots.hosts(tables.with_(samples=samples))
    (drawn,) = (t for t in figure.data if t.name == "CPU in use")
    assert [v for v in drawn.y if v is not None] == pytest.approx(
        [70.0] * np.isfinite(cpu[0]).sum()
    )
    assert None in drawn.y


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


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_becomes_a_short_text(name: str) -> None:
    for shown in (label(name), wrapped(name), *distinct([name, name], ["a/1", "a/2"])):
        rest = shown.replace("<br>", "")
        assert not set(rest) & set("<>$\u202e\u2028\u0000\u001b")
        assert 0 < len(rest) < 1_500
    assert safe("a & b") == "a &amp; b"


def test_equal_names_get_the_end_of_their_ids() -> None:
    assert distinct(["q", "q", "r"], ["app/sql-1", "app/sql-2", "x"]) == ["q sql-1", "q sql-2", "r"]


def test_a_query_or_stage_that_is_not_there_is_named(hostile_diagnosis) -> None:
    plot = hostile_diagnosis.plot
    with pytest.raises(UsageError, match="no query is called"):
        plot.sankey("nobody")
    with pytest.raises(UsageError, match="has no stage 999"):
        plot.heatmap("q0", stage="999")
    with pytest.raises(UsageError, match="no measure is called 'x'"):
        plot.heatmap("q0", "x")
    with pytest.raises(UsageError, match="no resource is called 'disk'"):
        plot.matrix(resource="disk")


MACHADO = {
    "none": np.eye(3),
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                     [-0.011820, 0.042940, 0.968881]],
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
                   [-0.003882, -0.048116, 1.051998]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
                   [0.004733, 0.691367, 0.303900]],
}  # fmt: skip
"""Machado, Oliveira and Fernandes 2009: linear RGB as people with each blindness see it."""


def seen_as(colour: str, blindness: str) -> np.ndarray:
    """CIE Lab of a colour as seen with a colour blindness."""
    rgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    linear = np.clip(np.array(MACHADO[blindness]) @ linear, 0, 1)
    to_xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )
    xyz = to_xyz @ linear / np.array([0.9505, 1.0, 1.089])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("blindness", MACHADO)
@pytest.mark.parametrize("colours", [RESOURCE_COLOURS, BLAME_COLOURS], ids=["resources", "blame"])
def test_colours_differ_for_people_with_colour_blindness(blindness: str, colours) -> None:
    # A difference of 10 in Lab (ΔE 1976) is plain to see side by side; 2.3 is just noticeable.
    for (_, one), (_, other) in combinations(colours.items(), 2):
        distance = np.linalg.norm(seen_as(one, blindness) - seen_as(other, blindness))
        assert distance > 10, (one, other)


def test_every_resource_and_kind_of_blame_has_one_colour() -> None:
    assert set(RESOURCE_COLOURS) == set(Resource)
    assert set(BLAME_COLOURS) == set(BlameKind)


def test_a_recurring_query_keeps_its_colour_and_different_ones_differ() -> None:
    keys = [f"fingerprint-{i}" for i in range(36)]
    colours = stable_colours(keys)
    assert len(set(colours)) == 36
    assert stable_colours([keys[3], keys[3]]) == [stable_colours([keys[3]])[0]] * 2
    assert stable_colours([*keys, "one more"])[:36] == colours


def test_queries_without_a_fingerprint_are_coloured_by_id(hostile_diagnosis) -> None:
    assert len(set(query_colours(hostile_diagnosis.tables.queries))) == len(HOSTILE)


def test_importing_iqcar_and_its_pictures_does_not_import_plotly() -> None:
    code = "import sys, iqcar.plots, iqcar.diagnosis; sys.exit('plotly' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
