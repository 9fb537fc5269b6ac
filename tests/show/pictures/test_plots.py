"""Figures show the numbers of the graph, whatever the names, and say so where there are none."""

from __future__ import annotations

import subprocess
import sys
from html.parser import HTMLParser

import pytest
from hypothesis import HealthCheck, given

from iqcar.errors import UsageError
from iqcar.say import find_verdict
from iqcar.show.html.page import blame_bar
from iqcar.show.pictures.theme import distinct, label, query_colours, safe, wrapped
from tests.support.examples import examples
from tests.support.plotted import HOSTILE, assert_only_text, diagnosis_of, nothing_read, texts_of
from tests.support.random_tables import RandomInput, tables_and_waits
from tests.support.real_logs import LOGS, diagnosis_of_log


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
    figures = [plot.hosts(), plot.straggler_boxes(), plot.mixtures()]
    timelines = [plot.lanes(), plot.lanes("wait", by_host=True, dark=True), plot.timeline()]
    for query in chosen:
        figures.append(plot.straggler_boxes(query))
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
    ours = {"p", "b", "ul", "li", "table", "thead", "tbody", "tr", "th", "td", "details",
            "summary"}  # fmt: skip
    for tag, attributes in Tags(text).found:
        assert tag in ours
        assert not attributes
    assert len(text) < 60_000
    assert not set(text) & set("\u202e\u2028\u0000\u001b")


@pytest.mark.long
@pytest.mark.parametrize("name", LOGS)
def test_every_picture_of_a_real_log(name: str) -> None:
    diagnosis = diagnosis_of_log(name)
    assert_every_picture(diagnosis)
    assert_only_text(diagnosis.plot.mixtures("stage"))
    assert_safe_html(diagnosis._repr_html_())


def test_pictures_of_nothing_are_a_sentence() -> None:
    diagnosis = nothing_read()
    assert "No query lost time to another query." in diagnosis.plot.matrix().to_html()
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
    plot = hostile_diagnosis.plot
    for framed in (plot.matrix(), plot.sankey(), plot.heatmap(), plot.waits()):
        tags = [tag for tag, _ in Tags(framed.to_html()).found]
        assert tags.count("script") == 3 and "a" not in tags
        assert [tag for tag, _ in Tags(framed._repr_html_()).found] == ["iframe"]


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
def test_bars_of_blame_are_as_long_as_what_was_lost(made: RandomInput) -> None:
    diagnosis = diagnosis_of(made)
    assert_safe_html(diagnosis._repr_html_())
    colours = query_colours(diagnosis.tables.queries)
    durations = diagnosis.tables.queries["duration_ms"].to_numpy()
    for target in find_verdict(diagnosis).recurring:
        bar = blame_bar(target, colours)
        known = durations[target.query] > 0
        share = target.lost_ms / durations[target.query] if known else float(target.lost_ms > 0)
        assert sum(one.width for one in bar) == pytest.approx(share, abs=1e-6)


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
    with pytest.raises(UsageError, match="take lost_ms, share_of_duration"):
        plot.matrix("dor")


def test_importing_iqcar_and_its_pictures_does_not_import_plotly() -> None:
    code = "import sys, iqcar.show.pictures, iqcar.diagnosis;sys.exit('plotly' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
