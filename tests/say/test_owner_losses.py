"""What owners of queries lost to whom: grouping moves no time, and names no cause an owner."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar import Diagnosis, diagnose, read
from iqcar.causes.blame.attribute import Blame
from iqcar.causes.graph.iqc_graph import build_graph
from iqcar.enums import BlameKind, Resource
from iqcar.say.sections import groupings_that_tell, losses_by_owner, owner_lines
from iqcar.show.html import render_page
from iqcar.show.json.analyze import to_dict
from iqcar.show.terminal.analyze import print_diagnosis
from iqcar.show.terminal.layout import terminal
from iqcar.tables import Tables
from tests.support.contended_log import contended_log
from tests.support.random_blame import blamed_tables

POOL = "<script>alert(1)</script>"
TEAM = "spark.acme.team"


@pytest.mark.slow
@given(blamed_tables(), st.lists(st.sampled_from(["", "a", "b"]), min_size=9, max_size=9))
def test_grouping_never_changes_totals(given_: tuple[Tables, Blame], pools: list[str]) -> None:
    tables, blame = given_
    stages = tables.stages.assign(pool=[pools[n % 9] for n in range(len(tables.stages))], job=-1)
    tables = tables.with_(stages=stages)
    graph = build_graph(tables, blame)
    found = SimpleNamespace(tables=tables, graph=graph, blame=blame)
    every = [losses_by_owner(found, by) for by in ("pool", "application", TEAM)]

    for losses in every:
        assert losses["lost_ms"].sum() == pytest.approx(graph.query_losses().sum(), abs=1e-6)
        if len(losses):
            assert losses["share"].sum() == pytest.approx(1)
        for resource in Resource:
            part = losses[losses["resource"] == resource]["lost_ms"].sum()
            hurts = graph.who_hurts_whom(resource)["lost_ms"].sum()
            assert part == pytest.approx(hurts, abs=1e-6)
        lines, rest = owner_lines(losses, 2)
        shown = [*lines, rest] if rest else lines
        assert sum(one.lost_ms for one in shown) == pytest.approx(losses["lost_ms"].sum())
        for one in shown:
            assert sum(one.by_resource.values()) == pytest.approx(one.lost_ms)
    assert set(every[2]["victim"]) <= {f"(no {TEAM})"}


@pytest.fixture(scope="module")
def diagnosis(tmp_path_factory: pytest.TempPathFactory) -> Diagnosis:
    folder: Path = tmp_path_factory.mktemp("logs")
    contended_log().write(folder / "app-1")
    tables = read(folder)
    pools = [POOL if n % 2 else "" for n in range(len(tables.jobs))]
    return diagnose(tables.with_(jobs=tables.jobs.assign(pool=pools)), by="pool")


def test_owners_and_causes_are_told_apart(diagnosis: Diagnosis) -> None:
    losses = diagnosis.by("pool")
    query = losses["kind"] == BlameKind.QUERY

    assert losses["lost_ms"].sum() == pytest.approx(diagnosis.lost_ms().sum())
    assert losses[query]["lost_ms"].sum() == pytest.approx(diagnosis.lost_to_others_ms().sum())
    assert set(losses["victim"]) | set(losses[query]["source"]) == {POOL, "(no pool)"}
    assert (np.diff(losses["lost_ms"]) <= 0).all()


def test_the_result_has_the_rows_only_where_they_are_asked_for(diagnosis: Diagnosis) -> None:
    result = to_dict(diagnosis)

    assert pd.DataFrame(result["lost_by_owner"]).equals(diagnosis.by("pool"))
    assert result["settings"]["by"] == "pool"
    assert to_dict(diagnose(diagnosis.tables))["lost_by_owner"] == []


def test_the_terminal_prints_who_lost_to_whom(
    diagnosis: Diagnosis, capsys: pytest.CaptureFixture[str]
) -> None:
    print_diagnosis(diagnosis, terminal())

    assert "Who lost to whom, by pool" in capsys.readouterr().out


def test_an_owner_is_text_on_the_page(diagnosis: Diagnosis) -> None:
    page = render_page(diagnosis, assets="/static/")

    assert 'id="owners"' in page
    assert POOL not in page
    assert "&lt;script&gt;alert(1)" in page


def test_a_page_shows_the_groupings_that_tell_queries_apart(diagnosis: Diagnosis) -> None:
    tables = diagnosis.tables

    assert groupings_that_tell(tables) == ["pool"]
    assert groupings_that_tell(tables, TEAM) == [TEAM, "pool"]
