"""What a diagnosis says of a query holds together, whatever was asked for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.report.json.analyze import to_dict
from tests.support.examples import examples
from tests.support.plotted import diagnosis_of
from tests.support.random_tables import RandomInput, tables_and_waits


@pytest.mark.slow
@given(tables_and_waits(max_tasks=20), st.booleans())
@examples(30)
def test_blame_of_a_query_sums_to_what_it_lost(made: RandomInput, critical_path: bool) -> None:
    for query in to_dict(diagnosis_of(made, critical_path))["queries"]:
        assert sum(row["share"] for row in query["blame"]) == pytest.approx(1)
        assert sum(row["lost_ms"] for row in query["blame"]) == pytest.approx(query["lost_ms"])
        assert query["lost_to_others_ms"] <= query["lost_ms"]
