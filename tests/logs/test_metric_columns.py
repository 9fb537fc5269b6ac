"""Metrics as columns hold what a list of metrics holds, whatever is told and forgotten."""

from __future__ import annotations

from math import isnan, nan

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from iqcar.logs.events.sql_collect import MetricColumns

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 5), st.integers(1, 4)),
        st.tuples(st.sampled_from(["stage", "driver"]), st.integers(0, 30), st.floats(0, 2.0**64)),
        st.tuples(st.just("forget"), st.sets(st.integers(0, 30)), st.none()),
    ),
    max_size=20,
)


@given(STEPS)
def test_columns_hold_what_a_list_of_metrics_holds(steps: list[tuple]) -> None:
    columns, naive, accumulator = MetricColumns(), {}, 0
    for kind, first, second in steps:
        if kind == "add":
            ids = range(accumulator, accumulator + second)
            accumulator += second
            told = [(f"node {one}", f"name {one}", f"unit {one}", one / 2) for one in ids]
            columns.add(ids, first, *zip(*told, strict=True))
            naive |= {one: [first, *more, nan, nan] for one, more in zip(ids, told, strict=True)}
        elif kind == "forget":
            columns.forget(first)
            naive = {one: metric for one, metric in naive.items() if one not in first}
        elif first in naive:
            if kind == "stage":
                columns.told_by_stage(first, second)
                naive[first][5] = second
            else:
                columns.told_by_driver(first, second)
                before = naive[first][6]
                naive[first][6] = second if isnan(before) else before + second
    assert len(columns) == len(naive)
    assert columns.rows == {one: row for row, one in enumerate(naive)}
    assert all(count > 0 for _, count in columns.runs)
    executions = [execution for execution, count in columns.runs for _ in range(count)]
    found = zip(
        executions, columns.nodes, columns.names, columns.units, columns.factors, strict=True
    )
    assert list(map(list, found)) == [metric[:5] for metric in naive.values()]
    values = [driver if isnan(stage) else stage for *_, stage, driver in naive.values()]
    expected = [
        value * metric[4] if value < 2.0**63 else nan
        for value, metric in zip(values, naive.values(), strict=True)
    ]
    np.testing.assert_array_equal(columns.totals(), expected)
