"""Top-k impact paths: best first finds what enumerating everything finds, in the same order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.causes.graph.iqc_graph import PathSearch
from iqcar.enums import Request
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
