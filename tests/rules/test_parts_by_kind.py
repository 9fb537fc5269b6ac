"""The delay of stragglers by kind of advice: what a loop over all parts finds."""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pandas as pd
from hypothesis import example, given
from hypothesis import strategies as st

from iqcar.causes.stragglers.straggler_result import STRAGGLERS
from iqcar.rules.straggler_delays import LEAST_PART_MS, kind_parts
from iqcar.rules.vocabulary import advice_kinds
from tests.causes.stragglers.test_straggler_blame import rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    Parts = Sequence[tuple[int, str, float]]
    Rows = list[tuple[int, str, float, int]]

KINDS = advice_kinds()
CAUSES = sorted({cause for kind in KINDS.values() for cause in kind.causes})
OF_SLOW_HOSTS = {c for kind in KINDS.values() if kind.scope == "host" for c in kind.causes}
PLACES = [(0, 0), (1, 0), (1, 2), (2, -1)]
"""Host and query of each straggler; the last belongs to no query."""


def naive(parts: Parts, slow: set[int]) -> Rows:
    """Sum part by part: what a slow host caused is advised on once, against that host."""
    summed: defaultdict[tuple[str, int], float] = defaultdict(float)
    for straggler, cause, delay_ms in parts:
        on_slow = PLACES[straggler][0] in slow
        for key, kind in KINDS.items():
            of_host = on_slow and cause in OF_SLOW_HOSTS
            counts = on_slow if kind.scope == "host" else not of_host
            if cause in kind.causes and counts:
                summed[key, straggler] += delay_ms
    return [
        (straggler, key, ms, PLACES[straggler][1])
        for key in KINDS
        for straggler in range(len(PLACES))
        if (ms := summed[key, straggler]) >= LEAST_PART_MS and PLACES[straggler][1] >= 0
    ]


# Whole milliseconds: their sums are the same in any order.
DELAY = st.sampled_from([0.0, LEAST_PART_MS - 1, LEAST_PART_MS, 500.0])
PART = st.tuples(st.integers(0, len(PLACES) - 1), st.sampled_from(CAUSES), DELAY)


@given(st.lists(PART, max_size=12), st.sets(st.integers(0, 2)))
@example([(n, cause, 500.0) for n in range(len(PLACES)) for cause in CAUSES], {1})
def test_parts_are_summed_by_kind_and_those_of_a_slow_host_are_its_own(
    parts: Parts, slow: set[int]
) -> None:
    stragglers = rows(STRAGGLERS, *({"host": host, "query": query} for host, query in PLACES))
    found = kind_parts(
        pd.DataFrame(parts, columns=["straggler", "cause", "delay_ms"]),
        KINDS,
        SimpleNamespace(stragglers=stragglers),  # type: ignore[arg-type]
        slow,
    )
    names = ["straggler", "kind", "delay_ms", "query"]
    assert list(found[names].itertuples(index=False, name=None)) == naive(parts, slow)
