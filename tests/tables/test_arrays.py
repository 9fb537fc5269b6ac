"""Array operations by group agree with NumPy's own, which sort."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from iqcar.tables.arrays import distinct


@given(st.lists(st.integers(0, 40)))
def test_distinct_numbers_and_their_positions_are_those_of_a_sort(codes: list[int]) -> None:
    found = distinct(np.array(codes, np.int64))
    for values, expected in zip(
        found, np.unique(np.array(codes, np.int64), return_inverse=True), strict=True
    ):
        np.testing.assert_array_equal(values, expected)
