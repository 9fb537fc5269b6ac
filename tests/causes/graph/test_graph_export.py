"""iQC-Graph as nodes and edges: sums stay whole, whatever is folded; networkx has it all."""

from __future__ import annotations

import json

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.enums import Request
from tests.causes.graph.test_graph import a_blamed_pair, graphs
from tests.support.examples import examples
from tests.support.random_blame import UNATTRIBUTED, blame_of_rows, blamed_tables, named_tables


def check_export_is_consistent(exported, targets: int, lost_targets: int) -> nx.DiGraph:
    """Every level's DOR sums to the targets; every node's DOR is Σ IF · DOR of what it feeds."""
    graph = nx.DiGraph()
    for node in exported.nodes:
        assert node["id"] not in graph
        graph.add_node(node["id"], **node)
    for edge in exported.edges:
        assert edge["from"] in graph and edge["to"] in graph
        graph.add_edge(edge["from"], edge["to"], impact=edge["impact_factor"])
    assert graph.number_of_edges() == len(exported.edges)
    for level in range(7):
        total = sum(n["dor"] for n in exported.nodes if n["level"] == level)
        assert total == pytest.approx(lost_targets if level else targets)
    for node, data in graph.nodes(data=True):
        below = list(graph.successors(node))
        if data["level"]:
            expected = sum(graph.edges[node, b]["impact"] * graph.nodes[b]["dor"] for b in below)
            assert data["dor"] == pytest.approx(expected)
            assert {graph.nodes[b]["level"] for b in below} == {data["level"] - 1}
        if data["level"] >= 5:
            assert data["dor"] == pytest.approx(sum(data["dor_by_target"].values()))
    return graph


@pytest.mark.slow
@examples(50)
@given(blamed_tables(), st.integers(0, 8))
def test_an_exported_graph_is_whole_whatever_was_folded(blamed, limit):
    graph = graphs(blamed)
    exported = graph.export(max_blame_nodes=limit)
    lost_targets = sum(graph.lost_ms(target) > 0 for target in graph.targets)
    check_export_is_consistent(exported, len(graph.targets), lost_targets)
    json.dumps(exported.nodes + exported.edges, allow_nan=False)
    exact = graph.export(max_blame_nodes=10**9)
    assert exact.folded == 0
    of_queries = {n["id"]: n["dor"] for n in exported.nodes if n["level"] == 6}
    assert of_queries == pytest.approx({n["id"]: n["dor"] for n in exact.nodes if n["level"] == 6})


def test_export_folds_the_smallest_sources_of_a_demand_and_counts_them():
    tables = named_tables([0, 1, 1, 1, 2])
    sources = [(1, 100.0), (2, 3.0), (3, 2.0), (4, 1.0), (UNATTRIBUTED, 4.0)]
    blame = blame_of_rows(tables, [(0, Request.IO_READ, 0, 110.0, sources)], [11.0, 0, 0, 0, 0])
    exported = graphs((tables, blame)).export(max_blame_nodes=1)
    explanations = {n["label"]: n["dor"] for n in exported.nodes if n["level"] == 4}
    assert exported.folded == 3
    assert explanations == pytest.approx(
        {
            "stage 1.0 of q1 on h0": 100 / 110,
            "3 other sources": 6 / 110,
            "unattributed on h0": 4 / 110,
        }
    )
    stages = {n["label"]: n["dor"] for n in exported.nodes if n["level"] == 5}
    assert stages == pytest.approx(
        {
            "stage 1.0 of q1": 100 / 110,
            "other stages of q1": 5 / 110,
            "other stages of q2": 1 / 110,
            "unattributed": 4 / 110,
        }
    )


def test_export_of_chosen_targets_sums_shared_levels_over_them_only():
    tables = named_tables([0, 1, 2])
    demands = [
        (0, Request.IO_READ, 0, 10.0, [(2, 10.0)]),
        (1, Request.IO_READ, 0, 10.0, [(2, 5.0), (0, 5.0)]),
    ]
    graph = graphs((tables, blame_of_rows(tables, demands, [1.0, 1.0, 0.0])))
    (one,) = [n for n in graph.export([1]).nodes if n["id"] == "sq:app-0/sql-2"]
    assert one["dor"] == pytest.approx(0.5)
    (both,) = [n for n in graph.export().nodes if n["id"] == "sq:app-0/sql-2"]
    assert both["dor"] == pytest.approx(1.5)
    assert both["dor_by_target"] == pytest.approx({"app-0/sql-0": 1.0, "app-0/sql-1": 0.5})


def test_networkx_graph_is_a_dag_from_source_queries_to_targets():
    graph = graphs(a_blamed_pair()).to_networkx()
    assert nx.is_directed_acyclic_graph(graph)
    assert nx.has_path(graph, "sq:app-0/sql-1", "tq:app-0/sql-0")
    assert {d["level"] for _, d in graph.nodes(data=True)} == set(range(7))


@pytest.mark.slow
@examples(30)
@given(blamed_tables())
def test_networkx_graph_has_every_vertex_and_edge(blamed):
    graph = graphs(blamed)
    walk = graph.to_networkx()
    assert len(walk) == sum(graph.sizes())
    assert walk.number_of_edges() == len(graph.edges())
    for level in range(7):
        for row in graph.vertices(level).itertuples():
            assert walk.nodes[row.id]["dor"] == pytest.approx(row.dor)
