"""Paths of the iQC-Graph, and the paper's own examples."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.causes.graph.iqc_graph import IQCGraph, PathSearch, build_graph
from iqcar.enums import Request, Resource
from tests.causes.graph.test_graph import graphs, keys_of
from tests.support import naive_graph
from tests.support.examples import examples
from tests.support.random_blame import UNATTRIBUTED, blame_of_rows, blamed_tables, named_tables


@pytest.mark.slow
@examples(120)
@given(blamed_tables(), st.integers(0, 12), st.data())
def test_paths_equal_the_first_of_all_paths_enumerated_and_sorted(blamed, k, data):
    tables, blame = blamed
    queries = list(range(len(tables.queries)))
    target = data.draw(st.one_of(st.none(), st.sampled_from(queries)))
    graph = graphs(blamed)
    naive = naive_graph.build(tables, blame, queries, critical_path=False)
    naive_graph.update_impact_factors(naive)
    position = {key: at for level in keys_of(graph) for at, key in enumerate(level)}
    expected = sorted(
        (-round(weight, 12), tuple(position[vertex] for vertex in path))
        for weight, path in naive_graph.all_paths(naive)
        if weight > 0 and target in (None, path[0][1])
    )
    every = graph.paths(10**6, target)
    assert every["weight"].is_monotonic_decreasing
    found = sorted(
        (-round(w, 12), p) for w, p in zip(every["weight"], every["positions"], strict=True)
    )
    assert [p for _, p in found] == [p for _, p in expected]
    assert [w for w, _ in found] == pytest.approx([w for w, _ in expected], abs=1e-11)
    first = graph.paths(k, target)
    assert first["positions"].tolist() == every["positions"].tolist()[:k]
    ties = list(zip(-every["weight"], every["positions"], strict=True))
    assert ties == sorted(ties)


@examples(40)
@given(blamed_tables())
def test_paths_of_one_target_weigh_one_in_all(blamed):
    graph = graphs(blamed)
    for target in graph.targets:
        weight = graph.paths(10**6, int(target))["weight"].sum()
        assert weight == pytest.approx(1.0 if graph.lost_ms(target) > 0 else 0.0)


def test_a_path_reads_from_source_query_to_target():
    tables = named_tables([0, 1], hosts=2)
    demands = [(0, Request.IO_READ, 1, 4.0, [(1, 3.0), (UNATTRIBUTED, 1.0)])]
    graph = graphs((tables, blame_of_rows(tables, demands, [8.0, 0.0])))
    first, second = graph.paths(5).to_dict("records")
    assert first["weight"] == pytest.approx(0.75)
    assert first["lost_ms"] == pytest.approx(6)
    assert (first["source_name"], first["source_stage"]) == ("q1", "stage 1.0 of q1")
    assert (first["target_name"], first["stage"]) == ("q0", "stage 0.0 of q0")
    assert (first["resource"], first["request"], first["host"]) == ("io", "io_read", "h1")
    assert [node[:3] for node in first["nodes"]] == [
        "sq:",
        "ss:",
        "be:",
        "de:",
        "ie:",
        "ts:",
        "tq:",
    ]
    exported = {node["id"] for node in graph.export().nodes}
    assert set(first["nodes"]) <= exported
    assert second["source_query_id"] is None
    assert second["kind"] == "unattributed"


def test_the_search_opens_few_vertices_of_a_wide_graph():
    """Best first must not look at every path: 2 of 2,000 paths need no 2,000 heap entries."""
    tables = named_tables([0] * 200 + [1] * 10)
    sources = [(200 + i, 1.0 + i) for i in range(10)]
    demands = [
        (stage, Request.IO_READ, 0, sum(ms for _, ms in sources), sources) for stage in range(200)
    ]
    lost = [float(1 + stage) for stage in range(200)] + [0.0] * 10
    contents = graphs((tables, blame_of_rows(tables, demands, lost)))
    search = PathSearch(contents.structure, contents.dor)
    pushed = []
    push = search._push
    search._push = lambda heap, *args: (pushed.append(args), push(heap, *args))  # type: ignore[method-assign]
    assert len(search.heaviest(2, [0])) == 2
    assert len(pushed) < 40


ONE_REQUEST_EACH = (
    Request.SLOT_WAIT,
    Request.RUN_QUEUE,
    Request.EXECUTION_MEMORY,
    Request.SHUFFLE_FETCH,
    Request.IO_READ,
)


def test_figure_5_impact_factor_is_a_vertex_share_of_its_siblings_contribution():
    """One vertex with in-neighbours v1, v2, v3 of VC 10, 30 and 60: IF 0.1, 0.3 and 0.6."""
    tables = named_tables([0, 1, 2, 3])
    sources = [(1, 10.0), (2, 30.0), (3, 60.0)]
    blame = blame_of_rows(tables, [(0, Request.IO_READ, 0, 100.0, sources)], [50.0, 0, 0, 0])
    graph = build_graph(tables, blame, targets=[0])
    dor = dict(zip(graph.vertices(6)["label"], graph.vertices(6)["dor"], strict=True))
    assert dor["q1"] == pytest.approx(0.1)
    assert dor["q2"] == pytest.approx(0.3)
    assert dor["q3"] == pytest.approx(0.6)
    edges = graph.edges()
    into_demand = edges[edges["from_level"] == 4]["impact_factor"]
    assert sorted(into_demand) == pytest.approx([0, 0, 0.1, 0.3, 0.6])


def test_figure_5_dor_of_a_vertex_is_the_sum_over_its_paths_of_products_of_impact_factors():
    """Source stage 2 reaches the target by four paths, multiplied out by hand.

    stage 0 (VC 3 of 4): cpu 1 of 4 → source 1/2;  io 3 of 4: h0 1/3 → source 1/5, h1 2/3 → all
    stage 1 (VC 1 of 4): io, one host → source 7/10
    DOR = 3/4·1/4·1/2 + 3/4·3/4·1/3·1/5 + 3/4·3/4·2/3·1 + 1/4·1·1·7/10 = 0.68125
    """
    tables = named_tables([0, 0, 1], hosts=2)
    demands = [
        (0, Request.RUN_QUEUE, 0, 10.0, [(2, 5.0), (UNATTRIBUTED, 5.0)]),
        (0, Request.IO_READ, 0, 10.0, [(2, 2.0), (UNATTRIBUTED, 8.0)]),
        (0, Request.IO_WRITE, 1, 20.0, [(2, 20.0)]),
        (1, Request.IO_READ, 1, 8.0, [(2, 5.6), (UNATTRIBUTED, 2.4)]),
    ]
    blame = blame_of_rows(tables, demands, [30.0, 10.0, 0.0])
    graph = build_graph(tables, blame, targets=[0])
    by_hand = 3 / 4 / 4 / 2 + 9 / 16 / 3 / 5 + 9 / 16 * 2 / 3 + 0.7 / 4
    assert by_hand == pytest.approx(0.68125)
    for level in (5, 6):
        top = graph.top(level, 1)
        assert top["source_query"].tolist() == [1]
        assert top["dor"].tolist() == pytest.approx([by_hand])
    rest = graph.vertices(6).set_index("label")["dor"]["unattributed"]
    assert rest == pytest.approx(1 - by_hand)
    weights = graph.paths(10)["weight"].tolist()
    assert weights[0] == pytest.approx(9 / 16 * 2 / 3)
    assert sum(weights) == pytest.approx(1)


def example_3_1() -> IQCGraph:
    """Q0 with stages s1, s3, s4, s5 on its critical path; Q1's r3 was with s1 on X, Q2's u5,
    u7, u9 with s5 on Y. s0 and s2 of Q0 are off the critical path. Rows: s0…s5 are 0…5, r3 is 6,
    u5, u7, u9 are 7, 8, 9; X is host 0, Y host 1.
    """
    tables = named_tables(
        [0] * 6 + [1] + [2] * 3,
        hosts=2,
        queries=[{"name": "Q0"}, {"name": "Q1"}, {"name": "Q2"}],
        critical=[False, True, False, True, True, True, True, True, True, True],
    )
    demands = []
    nobody = [(UNATTRIBUTED, 10.0)]
    for stage in range(6):
        for request in ONE_REQUEST_EACH:
            for host in (0, 1):
                sources = {(1, 0): [(6, 10.0)], (5, 1): [(7, 2.0), (8, 3.0), (9, 5.0)]}
                demands.append((stage, request, host, 10.0, sources.get((stage, host), nobody)))
    lost = [100.0] * 6 + [0.0] * 4
    blame = blame_of_rows(tables, demands, lost)
    return build_graph(tables, blame, targets=[0], critical_path=True)


def test_example_5_2_four_target_stages_with_five_immediate_explanations_each():
    graph = example_3_1()
    assert graph.vertices(0)["label"].tolist() == ["Q0"]
    assert graph.vertices(1)["stage"].tolist() == [1, 3, 4, 5]
    explanations = graph.vertices(2)
    for stage in (1, 3, 4, 5):
        of_stage = explanations[explanations["stage"] == stage]
        # The paper has one application, and no waits for executors.
        five = [resource.value for resource in Resource if resource is not Resource.EXECUTORS]
        assert of_stage["resource"].tolist() == five


def test_example_5_3_a_deep_explanation_per_request_and_host():
    graph = example_3_1()
    deep = graph.vertices(3)
    assert len(deep) == 4 * 5 * 2
    of_s5 = deep[(deep["stage"] == 5) & (deep["resource"] == "io")]
    assert of_s5["label"].tolist() == ["io_read on h0", "io_read on h1"]


def test_example_5_4_a_blame_explanation_per_concurrent_source_stage_and_demand():
    graph = example_3_1()
    blame = graph.vertices(4)
    from_q1 = blame[blame["source_query"] == 1]
    assert len(from_q1) == 5
    assert set(from_q1["stage"]) == {1}
    assert set(from_q1["host"]) == {0}
    from_q2 = blame[blame["source_query"] == 2]
    assert len(from_q2) == 3 * 5
    assert set(from_q2["stage"]) == {5}
    assert set(from_q2["host"]) == {1}
    assert set(from_q2["source_stage"]) == {7, 8, 9}
    unattributed = blame[blame["kind"] == "unattributed"]
    assert len(unattributed) == len(graph.vertices(3))
    assert graph.vertices(5)["source_stage"].tolist() == [6, 7, 8, 9, -1, -1]
    assert graph.vertices(6)["label"].tolist() == ["Q1", "Q2", "known causes", "unattributed"]


def test_example_3_1_says_which_of_q1_and_q2_did_more():
    """Each of 4 stages is a quarter, each resource a fifth, each host a half: the sources of
    s1's demands on X get all of theirs, 1/4·1/2; so do s5's on Y together.
    """
    graph = example_3_1()
    dor = graph.vertices(6).set_index("label")["dor"]
    assert dor["Q1"] == pytest.approx(1 / 8)
    assert dor["Q2"] == pytest.approx(1 / 8)
    assert dor["unattributed"] == pytest.approx(6 / 8)
    stages = graph.vertices(5).set_index("source_stage")["dor"]
    assert stages[9] == pytest.approx(1 / 16)
    assert graph.blame_of(0)["lost_ms"].sum() == pytest.approx(400)
