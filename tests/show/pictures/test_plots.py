"""Figures show the numbers of the graph, whatever the names, and say so where there are none."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import HealthCheck, given

import iqcar
from iqcar.enums import Resource
from iqcar.errors import UsageError
from iqcar.say.query_names import RecurringNames
from iqcar.show.pictures import (
    heatmap_cells,
    matrix_cells,
    stage_waits,
)
from iqcar.show.pictures.theme import distinct, label, safe, wrapped
from tests.support.examples import examples
from tests.support.plotted import HOSTILE, assert_only_text, diagnosis_of, nothing_read, texts_of
from tests.support.random_tables import RandomInput, tables_and_waits
from tests.support.real_logs import LOGS, diagnosis_of_log


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
@examples(12, suppress_health_check=[HealthCheck.too_slow])
def test_links_between_two_columns_of_a_sankey_sum_to_the_targets_dor(made: RandomInput) -> None:
    diagnosis = diagnosis_of(made)
    for target in diagnosis.targets:
        figure = iqcar.show.pictures.sankey(diagnosis.graph, target, most=2)
        if diagnosis.graph.lost_ms(target) <= 0:
            assert not figure.data
            assert len(texts_of(figure)) >= 1
            continue
        assert column_sums(figure) == pytest.approx(dict.fromkeys(range(1, 6), 1.0))


@given(made=tables_and_waits())
@examples(12)
def test_source_nodes_of_a_sankey_hold_the_queries_dor(made: RandomInput) -> None:
    diagnosis = diagnosis_of(made)
    by_target = diagnosis.graph.dor_by_target(6)
    for target in diagnosis.targets:
        figure = iqcar.show.pictures.sankey(diagnosis.graph, target, most=100)
        if not figure.data:
            continue
        (trace,) = figure.data
        first = sum(node not in set(trace.link.target) for node in range(len(trace.node.label)))
        sums = np.bincount(trace.link.source, trace.link.value)[:first]
        mine = by_target[(by_target["target_query"] == target) & (by_target["dor"] > 0)]
        assert sorted(sums[sums > 0]) == pytest.approx(sorted(mine["dor"]))


@given(made=tables_and_waits())
@examples(16)
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
@examples(12)
def test_a_wait_that_nobody_recorded_is_no_zero_in_a_heatmap(made: RandomInput) -> None:
    diagnosis = diagnosis_of(made)
    for target in diagnosis.targets:
        args = (diagnosis.graph, diagnosis.tables, diagnosis.waits, diagnosis.blame, target)
        cells = heatmap_cells(*args)
        assert not (cells.missing & (cells.value > 0)).any()
        figure = iqcar.show.pictures.heatmap(*args)
        if not figure.data:
            continue
        hatched = sum(len(trace.x) for trace in figure.data if trace.type == "bar")
        assert hatched == cells.missing.sum()
        drawn = np.array(figure.data[0].z, dtype=float)
        assert np.isnan(drawn[cells.missing]).all()


@pytest.mark.slow
@pytest.mark.parametrize("most", [2, 3, 100])
@given(made=tables_and_waits())
@examples(12)
def test_a_matrix_sums_to_what_all_queries_lost(most: int, made: RandomInput) -> None:
    diagnosis = diagnosis_of(made)
    graph, names = diagnosis.graph, RecurringNames(diagnosis.tables)
    lost = sum(graph.lost_ms(int(target)) for target in graph.targets)
    cells = matrix_cells(graph, names, most=most)
    assert cells.value.sum() == pytest.approx(lost)
    parts = [matrix_cells(graph, names, resource=one, most=most).value.sum() for one in Resource]
    assert sum(parts) == pytest.approx(lost)
    assert len([s for s in cells.sources if s >= -2]) <= max(most, 2)
    assert len(cells.targets) <= max(most, 2)
    if most == 100 and lost > 0:
        ids = {query: names.ids[first] for query, first in zip(names.ids, names.first, strict=True)}
        runs = graph.matrix().rename(index=ids, columns=ids)
        whole = runs.groupby(level=0).sum().T.groupby(level=0).sum().to_numpy()
        assert sorted(cells.value[cells.value > 0]) == pytest.approx(sorted(whole[whole > 0]))
    for measure in ("dor", "share_of_duration"):
        parts = matrix_cells(graph, names, measure, most=most)
        assert parts.value[:, [t >= 0 for t in parts.targets]].sum(0).max(initial=0) < 1 + 1e-6


@given(made=tables_and_waits())
@examples(12)
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
        figure = iqcar.show.pictures.waits(diagnosis.tables, diagnosis.waits, target)
        drawn = sum(np.sum(t.x) for t in figure.data if t.name != "not recorded")
        assert drawn * 1e3 == pytest.approx(sums.sum())


@pytest.mark.slow
@given(made=tables_and_waits())
@examples(5, suppress_health_check=[HealthCheck.too_slow])
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
        plot.hosts(),
        plot.straggler_boxes(),
        plot.mixtures(),
    ]
    timelines = [plot.lanes(), plot.lanes("wait", by_host=True, dark=True), plot.timeline()]
    for query in chosen:
        figures += [
            plot.sankey(query),
            plot.heatmap(query),
            plot.heatmap(query, "ratp", resource="io", dark=True),
            plot.waits(query),
            plot.straggler_boxes(query),
        ]
        timelines.append(plot.timeline(query, dark=True))
    for timeline in timelines:
        assert_only_our_tags(timeline.to_html())
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


def assert_only_our_tags(text: str) -> None:
    """A page of its own whose elements are ours, whatever the names in its data are."""
    tags = [tag for tag, _ in Tags(text).found]
    assert tags == [
        "html", "head", "meta", "meta", "title", "style", "body", "main", "script", "script",
    ]  # fmt: skip


def assert_safe_html(text: str) -> None:
    """Only our own elements, nothing that runs or loads, and not too long for a notebook."""
    ours = {"div", "p", "b", "ul", "li", "table", "thead", "tbody", "tr", "th", "td", "br", "small",
            "span", "code", "details", "summary"}  # fmt: skip
    for tag, attributes in Tags(text).found:
        assert tag in ours
        assert set(attributes) <= {"style", "scope", "role", "aria-label", "title"}
    assert len(text) < 60_000
    assert not set(text) & set("\u202e\u2028\u0000\u001b")


@pytest.mark.slow
@pytest.mark.parametrize("name", LOGS)
def test_every_picture_of_a_real_log(name: str) -> None:
    diagnosis = diagnosis_of_log(name)
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
    for timeline in (diagnosis.plot.timeline(), diagnosis.plot.lanes()):
        assert timeline.payload["empty"] == "No query ran in this input."
    for figure in (
        diagnosis.plot.hosts(),
        diagnosis.plot.straggler_boxes(),
        diagnosis.plot.mixtures(),
    ):
        assert not figure.data
        assert texts_of(figure)
    assert "Nothing ran in these logs" in diagnosis._repr_html_()


@pytest.mark.slow
def test_names_are_shown_as_text_wherever_they_come_from(hostile_diagnosis) -> None:
    assert_every_picture(hostile_diagnosis, queries=len(HOSTILE))
    assert_safe_html(hostile_diagnosis._repr_html_())


@pytest.fixture(scope="module")
def hostile_diagnosis():
    """Random tables with enough tasks that all queries lose time, and names that attack."""
    from tests.support.random_tables import random_input

    made = random_input(160, 2, 3, 4, len(HOSTILE), 6, 7)
    tables = made.tables
    queries = tables.queries.assign(name=list(HOSTILE))
    names = [HOSTILE[i % len(HOSTILE)] for i in range(len(tables.stages))]
    hosts = tables.hosts.assign(host=list(HOSTILE[: len(tables.hosts)]))
    hostile = tables.with_(queries=queries, stages=tables.stages.assign(name=names), hosts=hosts)
    return diagnosis_of(RandomInput(hostile, made.waits, "hostile names"))


@pytest.mark.slow
@given(made=tables_and_waits())
def test_bars_of_blame_in_a_notebook_are_as_long_as_what_was_lost(made: RandomInput) -> None:
    diagnosis = diagnosis_of(made)
    text = diagnosis._repr_html_()
    assert_safe_html(text)
    rows = re.findall(r"<tr><td.*?</tr>", text)
    assert len(rows) == len(diagnosis.targets)
    durations = diagnosis.tables.queries["duration_ms"].to_numpy()
    ids = diagnosis.tables.queries["query_id"].astype(str)
    for row in rows:
        (target,) = (one for one in diagnosis.targets if f"{ids[one]}\u2069</small>" in row)
        (bar,) = re.findall(r'<div role="img".*?</div>', row)
        lost = diagnosis.graph.lost_ms(target)
        known = durations[target] > 0
        share = lost / durations[target] if known else float(lost > 0)
        widths = [float(w) for w in re.findall(r"width:([\d.]+)%", bar)]
        # Two decimals of a percent for each piece.
        assert sum(widths) == pytest.approx(100 * share, abs=0.01 * len(widths) + 0.01)


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


def test_importing_iqcar_and_its_pictures_does_not_import_plotly() -> None:
    code = "import sys, iqcar.show.pictures, iqcar.diagnosis;sys.exit('plotly' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
