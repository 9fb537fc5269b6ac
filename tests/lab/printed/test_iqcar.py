"""iQCAR as printed: the paper's worked examples and arithmetic, and what its equations imply."""

from __future__ import annotations

import math

import pytest

from iqcar_lab.printed.iqcar import (
    DATA,
    TABLE_4,
    UNKNOWN,
    Name,
    PaperGraph,
    PaperTask,
    blame,
    build_paper_graph,
    cumulative_ratp,
    impact_factors,
    least_ratp,
    overlap,
    responsibilities,
    slowdown,
    top_vertices,
    unknown_blame,
)

FIGURE_1 = ("s0", "s1", "s2", "s3", "s4", "s5")


def ran(
    wait: float = 0.0,
    data: float = 1.0,
    *,
    of: tuple[Name, Name, Name] = ("Q0", "s1", "X"),
    time: tuple[float, float] = (0.0, 10.0),
    request: str = "io_read",
) -> PaperTask:
    """A task that waited in one way; 1 ms of CPU time."""
    return PaperTask(*of, *time, 1.0, {request: wait}, {DATA[request]: data})


# --- examples 3.1, 5.2 to 5.4


def example_3_1() -> PaperGraph:
    """Q1's r3 ran on X beside s1 alone, Q2's u5, u7, u9 on Y beside s5 alone."""
    tasks = [
        ran(2.0, of=("Q0", stage, host), time=(10.0 * at, 10.0 * at + 10))
        for at, stage in enumerate(FIGURE_1)
        for host in ("X", "Y")
    ]
    tasks.append(ran(1.0, of=("Q1", "r3", "X"), time=(10, 20)))
    tasks += [ran(1.0, of=("Q2", stage, "Y"), time=(50, 60)) for stage in ("u5", "u7", "u9")]
    return build_paper_graph(tasks, ["Q0"], {"s1", "s3", "s4", "s5"})


def test_example_5_2_five_explanations_for_each_of_four_stages() -> None:
    graph = example_3_1()
    assert graph.level(0) == [(0, "Q0")]
    assert graph.level(1) == [(1, "s1"), (1, "s3"), (1, "s4"), (1, "s5")]
    five = ["slots", "cpu", "memory", "network", "io"]
    assert graph.level(2) == [(2, s, r) for s in ("s1", "s3", "s4", "s5") for r in five]


def test_example_5_3_a_deep_explanation_per_request_and_host() -> None:
    of_s5 = [u[2:] for u in example_3_1().parents[2, "s5", "io"]]
    assert sorted(of_s5) == [(r, h) for r in ("io_read", "io_write") for h in ("X", "Y")]


def test_example_5_4_one_blame_explanation_from_r3_and_three_from_q2() -> None:
    graph = example_3_1()
    for deep in graph.level(3):
        _, stage, _, host = deep
        sources = {("s1", "X"): ["r3"], ("s5", "Y"): ["u5", "u7", "u9"]}.get((stage, host), [])
        assert [u[-1] for u in graph.parents[deep]] == [*sources, UNKNOWN]
    assert set(graph.level(5)) == {(5, s) for s in ("r3", "u5", "u7", "u9", UNKNOWN)}
    assert set(graph.level(6)) == {(6, q) for q in ("Q1", "Q2", UNKNOWN)}
    assert len(graph.level(3)) == 4 * len(DATA) * 2


def test_example_3_1_says_which_of_q1_and_q2_did_more() -> None:
    """Each of four stages did as much work, each host half of it, all of the wait was for reads:
    r3 made s1 wait on X, β = 2 and S = 1, so nothing there is unknown; so did Q2 s5 on Y.
    """
    dor = responsibilities(example_3_1())
    assert dor[6, "Q1"]["Q0"] == dor[6, "Q2"]["Q0"] == pytest.approx(1 / 8)
    assert dor[5, "u7"]["Q0"] == pytest.approx(1 / 24)
    assert dor[6, UNKNOWN]["Q0"] == pytest.approx(6 / 8)


# --- figure 5, eq. 13, algorithms 1 and 2


def figure_5() -> PaperGraph:
    """v1, v2, v3 lead to u1; v3 to u2, too. The text that we have does not tell its numbers."""
    graph = PaperGraph()
    graph.add((0, "t"), 1.0)
    for u, vc in (("u1", 1.0), ("u2", 3.0)):
        graph.add((1, u), vc, (0, "t"))
    for v, vc, u in (("v1", 1.0, "u1"), ("v2", 3.0, "u1"), ("v3", 6.0, "u1"), ("v3", 6.0, "u2")):
        graph.add((2, v), vc, (1, u))
    return graph


def test_figure_5_impact_factors_are_shares_of_vc_and_dor_sums_products_over_paths() -> None:
    graph = figure_5()
    impact, dor = impact_factors(graph), responsibilities(graph)
    assert [impact[(2, v), (1, "u1")] for v in ("v1", "v2", "v3")] == [0.1, 0.3, 0.6]
    assert dor[2, "v3"]["t"] == pytest.approx(0.6 * 1 / 4 + 1 * 3 / 4)
    assert top_vertices(dor, 1, 2, "t") == [((2, "v3"), pytest.approx(0.9))]


def test_where_nobody_contributes_impact_has_no_value_and_is_0() -> None:
    assert impact_factors(build_paper_graph([ran()], ["Q0"])) != {}
    dor = responsibilities(build_paper_graph([ran()], ["Q0"]))
    assert dor[1, "s1"]["Q0"] == 1.0
    assert top_vertices(dor, 9, 6, "Q0") == [((6, UNKNOWN), 0.0)]


def test_responsibilities_are_towards_each_target() -> None:
    tasks = [
        ran(4.0, of=("Q0", "s1", "X")),
        ran(1.0, of=("Q1", "r1", "X")),
        ran(2.0, of=("Q2", "u1", "X")),
    ]
    dor = responsibilities(build_paper_graph(tasks, ["Q0", "Q1", "Q2"]))
    assert dor[6, "Q1"] == pytest.approx({"Q0": 2 / 3, "Q2": 4 / 5})  # β 4 and 2; β 2 and 1/2


# --- §4: RATP, slowdown and blame


def test_table_4_counts_reads_and_writes_apart_below_and_together_above() -> None:
    task = PaperTask(
        "Q0", "s1", "X", 0, 10, 1,
        {"io_read": 6.0, "io_write": 2.0, "run_queue": 3.0, "monitor_blocked": 1.0},
        {"io_bytes_read": 2.0, "io_bytes_written": 2.0, "input_bytes": 2.0},
    )  # fmt: skip
    assert task.ratp("io_read") == 3.0
    assert task.ratp("io_write") == 1.0
    assert task.ratp(*TABLE_4["io"]) == 2.0
    assert task.ratp(*TABLE_4["cpu"]) == 2.0
    assert math.isnan(task.ratp("shuffle_fetch"))
    assert task._replace(wait={"io_read": 6.0}).ratp(*TABLE_4["io"]) == 3.0


def test_equation_7_multiplies_by_the_time_of_execution() -> None:
    tasks = [ran(6.0, 2.0, time=(0, 10)), ran(1.0, time=(5, 10)), ran(9.0, 0.0)]
    assert cumulative_ratp(tasks, "io_read") == 3 * 10 + 1 * 5


def test_equation_6_is_neither_scaled_to_the_slowdown_nor_capped() -> None:
    """Half of a second overlaps: S = 4 / 1 − 1 = 3, and one source of two is blamed for 4."""
    tt, st = ran(4.0), ran(1.0, of=("Q1", "r1", "X"))
    half = ran(2.0, of=("Q2", "u1", "X"), time=(5, 30))
    least = least_ratp([tt, st, half], "io_read")
    assert slowdown(tt.ratp("io_read"), least) == 3.0
    assert blame(tt, st, "io_read", least) == 4.0
    assert overlap(tt, half) == 5.0
    assert blame(tt, half, "io_read", least) == 0.5 * 4 / 2
    assert unknown_blame(3.0, 5.0) == 0.0


def test_a_task_that_never_waited_used_no_more_than_the_host_has() -> None:
    tt, least = ran(4.0), 2.0
    assert blame(tt, ran(0.0, of=("Q1", "r1", "X")), "io_read", least) == 2.0
    assert blame(tt, ran(0.0, 0.0, of=("Q1", "r1", "X")), "io_read", least) == 0.0
    assert blame(ran(0.0), tt, "io_read", least) == 0.0
    assert math.isnan(least_ratp([ran(0.0)], "io_read"))


def test_equations_10_and_11_capacities_that_add_up_make_blames_that_add_up_to_the_slowdown() -> (
    None
):
    """C_h = 8 = 1 + 4 + 2 + 1 unused: S = 7 = 4 + 2 + 1."""
    tt = ran(1.0)
    sources = [ran(1.0, c, of=("Q1", f"r{c}", "X")) for c in (4, 2)]
    slowed = slowdown(tt.ratp("io_read"), 1 / 8)
    blamed = sum(blame(tt, st, "io_read", 1 / 8) for st in sources)
    assert (slowed, blamed, unknown_blame(slowed, blamed)) == (7.0, 6.0, 1.0)


def test_equation_12_adds_up_intervals_in_which_equation_11_holds() -> None:
    """Cut where an overlap begins, β is the mean of what it is in each part (appendix A)."""
    tt, st = ran(4.0), ran(1.0, of=("Q1", "r1", "X"), time=(4, 30))
    parts = [tt._replace(start=a, end=b) for a, b in ((0, 4), (4, 10))]
    mean = sum((p.end - p.start) / 10 * blame(p, st, "io_read", 1.0) for p in parts)
    assert blame(tt, st, "io_read", 1.0) == pytest.approx(mean)


def test_a_query_is_not_the_source_of_its_own_waits() -> None:
    own = ran(1.0, of=("Q0", "s2", "X"))
    graph = build_paper_graph([ran(4.0), own], ["Q0"])
    assert graph.level(6) == [(6, UNKNOWN)]
    assert graph.contribution[4, "s1", "io_read", "X", UNKNOWN] == 3.0
