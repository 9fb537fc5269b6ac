"""The parameter that tells runs before from runs after, and how much times vary."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.comparison.explore import Split, best_split, variation
from iqcar.errors import UsageError

numbers = st.sampled_from([1.0, 2.0, 3.0, 1e9, float("nan")])
texts = st.sampled_from(["4g", "12g", None])
rows = st.lists(
    st.tuples(st.fixed_dictionaries({"bytes": numbers, "tasks": numbers, "memory": texts}),
              st.integers(0, 1)),
    min_size=1, max_size=14,
)  # fmt: skip
Row = dict[str, Any]


def split_of(of: list[tuple[Row, int]], *without: str) -> Split | None:
    frame = pd.DataFrame([row for row, _ in of], columns=["bytes", "tasks", "memory"])
    return best_split(frame, np.array([side for _, side in of]), without)


def bits(labels: Sequence[Any]) -> float:
    """Entropy of labels."""
    return -sum(n / len(labels) * math.log2(n / len(labels)) for n in Counter(labels).values())


def best_gain(rows: list[Row], sides: list[int]) -> float:
    """Largest information gain of any question, straight from Quinlan's definition."""
    most = 0.0
    for parameter in ("bytes", "tasks", "memory"):
        values = [row[parameter] for row in rows]
        told = [value is not None and value == value for value in values]
        for asked in {value for value, known in zip(values, told, strict=True) if known}:
            pairs = [
                (value == asked if isinstance(asked, str) else value > asked, side)
                for value, side, known in zip(values, sides, told, strict=True)
                if known
            ]
            inside = sum(
                len(part) / len(pairs) * bits(part)
                for which in (True, False)
                if (part := [side for answer, side in pairs if answer is which])
            )
            gain = len(pairs) / len(rows) * (bits([side for _, side in pairs]) - inside)
            most = max(most, gain)
    return most


@given(rows)
def test_the_question_is_the_one_that_tells_most(of: list[tuple[Row, int]]) -> None:
    found = split_of(of)
    most = best_gain([row for row, _ in of], [side for _, side in of])
    assert (found.gain if found else 0.0) == pytest.approx(most, abs=1e-8)
    if found:
        assert found.sentence.startswith(found.parameter)
        assert found.parameter not in found.equally_good


@given(rows, st.randoms(use_true_random=False))
def test_the_order_of_runs_does_not_matter(of: list[tuple[Row, int]], random: Any) -> None:
    one, other = split_of(random.sample(of, len(of))), split_of(of)
    assert (one is None) == (other is None)
    if one and other:
        assert one._replace(gain=0.0) == other._replace(gain=0.0)


@given(rows)
def test_equal_sides_have_no_explanation(of: list[tuple[Row, int]]) -> None:
    assert split_of([(row, side) for row, _ in of for side in (0, 1)]) is None


@given(rows)
def test_a_parameter_left_out_is_not_asked_for(of: list[tuple[Row, int]]) -> None:
    found = split_of(of)
    if found and (without := split_of(of, found.parameter)):
        assert found.parameter not in (without.parameter, *without.equally_good)


def test_a_setting_that_differs_is_the_explanation_and_what_follows_is_named() -> None:
    parameters = pd.DataFrame(
        {
            "memory": ["12g"] * 3 + ["4g"] * 3,
            "spill_bytes": [0.0, 0.0, 0.0, 3e9, 4e9, 3.5e9],
            "input_bytes": [1.0, 2.0, 3.0, 1.0, 2.0, 3.0],
        }
    )
    sides = np.repeat([0, 1], 3)
    found = best_split(parameters, sides)
    assert found
    assert (found.parameter, found.value, found.equally_good) == ("memory", "4g", ("spill_bytes",))
    assert found.sentence == "memory is 4g in 3 of 3 runs after and 0 of 3 before"
    again = best_split(parameters, sides, ["memory"])
    assert again
    assert (
        again.sentence == "spill_bytes is above 1500000000.0 in 3 of 3 runs after and 0 of 3 before"
    )
    assert best_split(parameters, sides, ["memory", "spill_bytes"]) is None


def test_the_clearer_of_two_equal_parameters_is_asked_for() -> None:
    parameters = pd.DataFrame({"a": [1.0, 50.0, 51.0, 100.0], "b": [1.0, 2.0, 99.0, 100.0]})
    found = best_split(parameters, np.repeat([0, 1], 2))
    assert found
    assert (found.parameter, found.equally_good) == ("b", ("a",))


def test_less_of_something_is_said_so_and_values_as_asked() -> None:
    parameters = pd.DataFrame({"hosts": [8.0, 8.0, 4.0, 4.0]})
    found = best_split(parameters, np.repeat([0, 1], 2), (), lambda name, at: f"{at:.0f} {name}")
    assert found
    assert found.sentence == "hosts is at most 6 hosts in 2 of 2 runs after and 0 of 2 before"


def test_an_unknown_parameter_cannot_be_left_out() -> None:
    with pytest.raises(UsageError, match="did you mean input_bytes"):
        best_split(pd.DataFrame({"input_bytes": [1.0, 2.0]}), np.array([0, 1]), ["input_byte"])


times = st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0.0, 1.0, 5.5, 1e6, math.nan])))


@given(times, st.randoms(use_true_random=False))
def test_variation_is_the_variance_over_the_squared_mean(
    table: list[tuple[int, float]], random: Any
) -> None:
    found = variation(*columns(table), 4)
    np.testing.assert_array_equal(found, variation(*columns(random.sample(table, len(table))), 4))
    for category in range(4):
        values = [value for at, value in table if at == category and not math.isnan(value)]
        if len(values) < 2 or not sum(values):
            assert math.isnan(found[category])
        else:
            mean = statistics.fmean(values)
            expected = statistics.variance(values) / mean**2
            assert found[category] == pytest.approx(expected, abs=1e-12)


def columns(table: list[tuple[int, float]]) -> tuple[np.ndarray, np.ndarray]:
    """Categories and values."""
    return np.array([at for at, _ in table], np.int64), np.array([v for _, v in table], np.float64)


def test_variation_does_not_depend_on_the_unit() -> None:
    category, value = np.zeros(5, np.int64), np.array([1.0, 2.0, 3.0, 4.0, 50.0])
    assert variation(category, value * 1000, 1) == pytest.approx(variation(category, value, 1))
