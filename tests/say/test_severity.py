"""How badly a query was hit, in a word."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.say.finding import Severity, severity_of


@given(
    st.floats(0, 1e7), st.floats(0, 1), st.floats(0, 1)
)  # fmt: skip
def test_severity_grows_with_what_was_lost_to_others(ran: float, lost: float, part: float) -> None:
    order = [Severity.SLIGHT, Severity.MARKED, Severity.SEVERE]
    worse = severity_of(ran, ran * lost, ran * lost)
    better = severity_of(ran, ran * lost, ran * lost * part)
    if better in order:
        assert order.index(worse) >= order.index(better)


@pytest.mark.parametrize(
    ("ran", "lost", "to_others", "word"),
    [
        (10_000, 8_000, 6_000, Severity.SEVERE),
        (10_000, 8_000, 3_000, Severity.MARKED),
        (10_000, 900, 800, Severity.SLIGHT),
        (10_000, 8_000, 100, Severity.OWN),
        (10_000, 300, 200, Severity.QUIET),
        (400, 400, 400, Severity.QUIET),
        (float("nan"), 0, 0, Severity.QUIET),
    ],
)
def test_severity_weighs_the_share_of_the_run_and_leaves_out_what_nobody_notices(
    ran: float, lost: float, to_others: float, word: Severity
) -> None:
    assert severity_of(ran, lost, to_others) is word
