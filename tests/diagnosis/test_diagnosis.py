"""What a diagnosis says of a query holds together, whatever was asked for."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import iqcar
from iqcar.show.json.analyze import to_dict
from tests.support.crowded_log import crowded_log
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


def test_who_asks_for_no_rules_gets_all_else(tmp_path: Path) -> None:
    tables = iqcar.read(crowded_log().write(tmp_path / "app-1"))
    full = to_dict(iqcar.diagnose(tables))
    plain = to_dict(iqcar.diagnose(tables, rules=False))
    assert full["rules"]
    assert full["rules_together"]
    differing = {key for key in full if full[key] != plain[key]}
    assert differing <= {"findings", "rules", "rules_together", "rejected_rules", "doubts"}
    assert not plain["rules"]
    assert set(plain["doubts"]) <= set(full["doubts"])
