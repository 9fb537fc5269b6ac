"""iQC-Graph: structure, impact factors, degrees of responsibility and what it answers."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.causes.blame.attribute import attribute
from iqcar.causes.blame.demand_weights import UNATTRIBUTED as UNATTRIBUTED_CODE
from iqcar.causes.graph.iqc_graph import build_graph
from iqcar.enums import Request, Resource
from iqcar.tables import Tables
from tests.support import naive_graph
from tests.support.examples import examples
from tests.support.random_blame import (
    KNOWN,
    UNATTRIBUTED,
    blame_of_rows,
    blamed_tables,
    named_tables,
)
from tests.support.random_tables import tables_and_waits


def graphs(blamed, critical_path=False, targets=None):
    tables, blame = blamed
    return build_graph(tables, blame, targets=targets, critical_path=critical_path)


def key_of(level: int, row) -> tuple:
    """The key naive_graph gives the vertex that a row of ``vertices(level)`` describes."""
    source = int(row["source_stage"])
    return {
        0: lambda: (0, int(row["target"])),
        1: lambda: (1, int(row["stage"])),
        2: lambda: (2, int(row["stage"]), row["resource"]),
        3: lambda: (3, int(row["stage"]), row["request"], int(row["host"])),
        4: lambda: (4, int(row["stage"]), row["request"], int(row["host"]), row["kind"], source),
        5: lambda: (5, source if source >= 0 else row["kind"]),
        6: lambda: (
            6,
            int(row["source_query"]) if row["source_query"] >= 0 else row["kind"],
        ),
    }[level]()


def keys_of(graph) -> list[list[tuple]]:
    return [
        [key_of(level, row) for row in graph.vertices(level).to_dict("records")]
        for level in range(7)
    ]


@pytest.mark.slow
@examples(80)
@given(blamed_tables(), st.booleans(), st.data())
def test_graph_equals_algorithms_1_and_2_walked_in_networkx(blamed, critical, data):
    tables, blame = blamed
    every = list(range(len(tables.queries)))
    targets = data.draw(st.one_of(st.none(), st.lists(st.sampled_from(every), unique=True)))
    graph = graphs(blamed, critical, targets)
    naive = naive_graph.build(tables, blame, every if targets is None else targets, critical)
    naive_graph.update_impact_factors(naive)
    naive_graph.update_dor(naive)
    keys = keys_of(graph)

    assert {key for level in keys for key in level} == set(naive)
    assert sum(graph.sizes()) == len(naive)
    for level in range(7):
        frame = graph.vertices(level)
        for key, vc, dor in zip(keys[level], frame["contribution"], frame["dor"], strict=True):
            assert vc == pytest.approx(naive.nodes[key]["vc"])
            assert dor == pytest.approx(sum(naive.nodes[key]["dor"].values()), abs=1e-12)
    edges = graph.edges()
    assert len(edges) == naive.number_of_edges()
    for edge in edges.itertuples():
        start = keys[edge.from_level][edge.from_position]
        end = keys[edge.from_level - 1][edge.to_position]
        assert edge.impact_factor == pytest.approx(naive.edges[start, end]["impact_factor"])
    for level in (5, 6):
        for row in graph.dor_by_target(level).to_dict("records"):
            expected = naive.nodes[keys[level][row["source"]]]["dor"][row["target_query"]]
            assert row["dor"] == pytest.approx(expected, abs=1e-12)


@pytest.mark.slow
@examples(50)
@given(blamed_tables(), st.booleans())
def test_dor_towards_one_target_sums_to_one_at_every_level(blamed, critical):
    graph = graphs(blamed, critical)
    for target in graph.targets:
        explained = graph.lost_ms(target) > 0
        for level in range(7):
            if level <= 4:
                frame = graph.vertices(level)
                of_target = frame["target"] == target
            else:
                frame = graph.dor_by_target(level)
                of_target = frame["target_query"] == target
            expected = 1.0 if explained or level == 0 else 0.0
            assert frame["dor"][of_target].sum() == pytest.approx(expected)
            assert of_target.any() == (explained or level == 0)


@pytest.mark.slow
@examples(50)
@given(blamed_tables())
def test_lost_time_of_one_target_is_whole_at_every_level(blamed):
    graph = graphs(blamed)
    for target in graph.targets:
        lost = graph.lost_ms(target)
        for level in range(5):
            frame = graph.vertices(level)
            of_target = (frame["target"] == target).to_numpy()
            if of_target.any():
                assert frame["lost_ms"][of_target].sum() == pytest.approx(lost)
        hurts = graph.who_hurts_whom()
        assert hurts["lost_ms"][hurts["target_query"] == target].sum() == pytest.approx(lost)


@examples(40)
@given(blamed_tables())
def test_under_time_lost_dor_is_the_share_of_lost_time(blamed):
    graph = graphs(blamed)
    for target in graph.targets:
        blame = graph.blame_of(target)
        assert blame["dor"].to_numpy() == pytest.approx(blame["share"].to_numpy(), abs=1e-9)


@examples(50)
@given(blamed_tables())
def test_blame_of_a_target_sums_to_what_it_lost(blamed):
    graph = graphs(blamed)
    for target in graph.targets:
        lost = graph.lost_ms(target)
        blame = graph.blame_of(target)
        assert blame["share"].sum() == pytest.approx(1)
        assert blame["lost_ms"].sum() == pytest.approx(lost)
        assert (blame["share"] >= 0).all()
        for row in blame.to_dict("records"):
            assert sum(row["by_resource"].values()) == pytest.approx(row["lost_ms"])
            assert sum(row["by_host"].values()) == pytest.approx(row["lost_ms"])
            assert row["share_of_duration"] == pytest.approx(row["lost_ms"] / 100_000)
        if lost == 0:
            assert blame["kind"].tolist() == ["unattributed"]
        else:
            assert {"own", "known", "unattributed"} <= set(blame["kind"])


@examples(40)
@given(blamed_tables())
def test_sums_over_all_targets_agree_between_the_views(blamed):
    graph = graphs(blamed)
    lost = sum(graph.lost_ms(target) for target in graph.targets)
    assert graph.hot_resources()["lost_ms"].sum() == pytest.approx(lost)
    assert graph.slow_nodes()["lost_ms"].sum() == pytest.approx(lost)
    hurts = graph.who_hurts_whom()
    by_resource = [graph.who_hurts_whom(resource)["lost_ms"].sum() for resource in Resource]
    assert sum(by_resource) == pytest.approx(hurts["lost_ms"].sum())
    others = hurts[hurts["kind"] == "query"]
    assert graph.aggressive_queries()["lost_ms"].sum() == pytest.approx(others["lost_ms"].sum())
    assert graph.aggressive_queries()["dor"].sum() == pytest.approx(others["dor"].sum())
    assert graph.matrix().to_numpy().sum() == pytest.approx(lost)


@pytest.mark.slow
@examples(40)
@given(blamed_tables(), st.randoms(use_true_random=False))
def test_order_of_demands_and_sources_changes_nothing(blamed, random):
    tables, blame = blamed
    order = list(range(len(blame.demands)))
    random.shuffle(order)
    new_row = np.argsort(order) if order else np.zeros(0, int)
    sources = blame.sources.assign(demand=new_row[blame.sources["demand"]].astype(np.int32))
    mixed = list(range(len(sources)))
    random.shuffle(mixed)
    shuffled = type(blame)(
        blame.demands.iloc[order].reset_index(drop=True),
        sources.iloc[mixed].reset_index(drop=True),
        blame.stages,
        (),
    )
    first, second = graphs(blamed), graphs((tables, shuffled))
    for level in range(7):
        a = first.vertices(level).set_index("id").sort_index()
        b = second.vertices(level).set_index("id").sort_index()
        assert list(a.index) == list(b.index)
        assert a["dor"].to_numpy() == pytest.approx(b["dor"].to_numpy(), abs=1e-12)


@examples(40)
@given(blamed_tables(), st.integers(1, 6), st.integers(0, 6))
def test_top_k_are_the_first_of_all_vertices_by_dor(blamed, k, level):
    graph = graphs(blamed)
    every = graph.vertices(level)
    every = every[every["dor"] > 0].sort_values("dor", ascending=False, kind="stable")
    assert graph.top(level, k)["id"].tolist() == every["id"].head(k).tolist()


def a_blamed_pair():
    """q0 lost 60 of 100 s: to q1 (36 s), itself (12 s), GC (6 s) and nobody (6 s)."""
    tables = named_tables([0, 0, 1], hosts=2)
    demands = [
        (
            0,
            Request.SLOT_WAIT,
            0,
            100.0,
            [(2, 60.0), (1, 20.0), (KNOWN, 10.0), (UNATTRIBUTED, 10.0)],
        ),
        (2, Request.IO_READ, 1, 0.0, []),
    ]
    return tables, blame_of_rows(tables, demands, [60_000.0, 0.0, 0.0])


def test_blame_names_query_own_known_and_unattributed_with_ms_and_shares():
    rows = graphs(a_blamed_pair()).blame_of(0).to_dict("records")
    assert [(r["kind"], r["source_query_id"], r["source_name"]) for r in rows] == [
        ("query", "app-0/sql-1", "q1"),
        ("own", "app-0/sql-0", "itself"),
        ("known", None, "known causes"),
        ("unattributed", None, "unattributed"),
    ]
    assert [r["lost_ms"] for r in rows] == pytest.approx([36_000, 12_000, 6_000, 6_000])
    assert rows[0]["share"] == pytest.approx(0.6)
    assert rows[0]["share_of_duration"] == pytest.approx(0.36)
    assert rows[0]["by_resource"] == pytest.approx({"slots": 36_000})
    assert rows[0]["by_host"] == pytest.approx({"h0": 36_000})


def test_a_target_that_lost_nothing_is_one_vertex_and_one_unattributed_row():
    graph = graphs(a_blamed_pair(), targets=[1])
    assert graph.sizes() == (1, 0, 0, 0, 0, 0, 0)
    row = graph.blame_of(1).to_dict("records")
    assert len(row) == 1
    assert (row[0]["kind"], row[0]["share"], row[0]["lost_ms"]) == ("unattributed", 1.0, 0.0)
    assert graph.paths(3).empty
    assert graph.aggressive_queries().empty
    assert graph.hot_resources().empty
    assert graph.slow_nodes().empty
    assert graph.who_hurts_whom().empty
    assert len(graph.export().nodes) == 1


def test_no_queries_give_an_empty_graph():
    tables = Tables.empty()
    graph = graphs((tables, blame_of_rows(tables, [], [])))
    assert graph.sizes() == (0,) * 7
    assert graph.matrix().empty
    assert graph.export().nodes == []


def test_own_blame_is_not_aggression():
    graph = graphs(a_blamed_pair())
    aggressive = graph.aggressive_queries()
    assert aggressive["name"].tolist() == ["q1"]
    assert aggressive["lost_ms"].tolist() == pytest.approx([36_000])
    assert aggressive["victims"].tolist() == [1]
    assert aggressive["resource"].tolist() == ["slots"]


def test_a_wait_for_slots_does_not_make_a_host_slow():
    tables = named_tables([0, 1], hosts=2)
    demands = [
        (0, Request.SLOT_WAIT, 0, 90.0, [(1, 90.0)]),
        (0, Request.IO_READ, 1, 10.0, [(1, 10.0)]),
    ]
    nodes = graphs((tables, blame_of_rows(tables, demands, [1000.0, 0.0]))).slow_nodes()
    assert nodes["host"].tolist() == ["h1", "h0"]
    assert nodes["lost_ms"].tolist() == pytest.approx([100, 900])
    assert nodes["slots_lost_ms"].tolist() == pytest.approx([0, 900])
    assert nodes["share"].tolist() == pytest.approx([0.1, 0.9])


def test_a_vertex_nobody_contributes_to_ends_unattributed():
    tables = named_tables([0, 1])
    demands = [(0, Request.RUN_QUEUE, 0, 0.0, [(1, 0.0)])]
    graph = graphs((tables, blame_of_rows(tables, demands, [5.0, 0.0])))
    by_kind = graph.vertices(4).set_index("kind")["dor"]
    assert by_kind["unattributed"] == 1
    assert by_kind["query"] == 0


def test_unknown_and_infinite_contributions_count_as_zero():
    tables = named_tables([0, 1])
    demands = [
        (0, Request.RUN_QUEUE, 0, np.nan, [(1, 10.0)]),
        (0, Request.IO_READ, 0, np.inf, [(1, 10.0)]),
        (0, Request.SHUFFLE_FETCH, 0, 2.0, [(1, 10.0)]),
    ]
    frame = graphs((tables, blame_of_rows(tables, demands, [5.0, 0.0]))).vertices(3)
    assert frame["dor"].tolist() == [0, 0, 1]


def test_only_stages_on_the_critical_path_when_asked():
    tables = named_tables([0, 0, 1], critical=[True, False, True])
    demands = [(stage, Request.RUN_QUEUE, 0, 10.0, [(2, 10.0)]) for stage in (0, 1)]
    blame = blame_of_rows(tables, demands, [5.0, 7.0, 0.0])
    assert graphs((tables, blame)).vertices(1)["stage"].tolist() == [0, 1]
    critical = graphs((tables, blame), critical_path=True)
    assert critical.vertices(1)["stage"].tolist() == [0]
    assert critical.lost_ms(0) == 5


def test_targets_keep_their_order_and_lose_repeats():
    assert graphs(a_blamed_pair(), targets=[1, 0, 1]).targets.tolist() == [1, 0]


@pytest.mark.parametrize("target", [-1, 2])
def test_an_unknown_target_is_refused(target):
    with pytest.raises(ValueError, match=f"no query in row {target}"):
        graphs(a_blamed_pair(), targets=[target])


def test_asking_about_a_query_that_is_no_target_is_refused():
    with pytest.raises(ValueError, match="not a target"):
        graphs(a_blamed_pair(), targets=[0]).blame_of(1)


def test_a_demand_without_its_unattributed_row_is_refused():
    tables, blame = a_blamed_pair()
    fewer = blame.sources[blame.sources["kind"] != UNATTRIBUTED_CODE].reset_index(drop=True)
    broken = type(blame)(blame.demands, fewer, blame.stages, ())
    with pytest.raises(ValueError, match="explanations other than one"):
        build_graph(tables, broken)


@pytest.mark.parametrize("level", [-1, 7])
def test_levels_beyond_the_seven_are_refused(level):
    graph = graphs(a_blamed_pair())
    with pytest.raises(ValueError, match="levels 0 to 6"):
        graph.vertices(level)
    with pytest.raises(ValueError, match="levels 0 to 6"):
        graph.top(level, 1)


def test_the_graph_is_frozen():
    graph = graphs(a_blamed_pair())
    with pytest.raises(FrozenInstanceError):
        graph.dor = None


@pytest.mark.slow
@examples(40)
@given(tables_and_waits())
def test_what_attribute_finds_makes_a_whole_graph(made):
    tables, waits = made.tables, made.waits
    blame = attribute(tables, waits)
    graph = graphs((tables, blame))
    query = tables.stages["query"].to_numpy()
    of_stages = [blame.stages["lost_ms"][query == row].sum() for row in range(len(tables.queries))]
    for target in graph.targets:
        assert graph.lost_ms(target) == pytest.approx(of_stages[target])
        blamed = graph.blame_of(target)
        assert blamed["lost_ms"].sum() == pytest.approx(of_stages[target])
        assert blamed["share"].sum() == pytest.approx(1)
        assert blamed["dor"].sum() == pytest.approx(1)
    graph.export()
