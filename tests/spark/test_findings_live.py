"""On a real Spark, the first finding names what was planted, and its action saves what it says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.listener_spark import spark_params
from tests.support.planted_causes import CAUSES, RUNS, VARIANTS, Planted, Run, judge

USUAL = "lock"
"""The one cause that is tried outside of long runs: its tasks wait, whatever else runs."""
MISSED = {
    ("throttled", "plain"),
    ("python-lock", "plain"),
    ("broadcast", "plugin"),
    ("broadcast", "plain"),
    ("locality", "plugin"),
}
"""Causes and variants of which another finding is the first."""
COMPUTING = ("locality", "schema", "skew")
"""What mending these saves is less than chance where others compute on the same processors."""

pytestmark = [pytest.mark.spark]


@pytest.fixture(scope="module", params=spark_params())
def planted(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Planted]:
    try:
        with Planted(request.param, tmp_path_factory.mktemp("planted")) as planted:
            yield planted
    except OSError as why:
        pytest.skip(f"no control group can be made here: {why}")


@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=[pytest.mark.long] * (k != USUAL)) for k in CAUSES]
)
def test_what_was_planted_is_found_first_and_mending_it_saves_what_is_said(
    planted: Planted, kind: str, tmp_path: Path
) -> None:
    for state, variant in RUNS:
        planted.record(Run(tmp_path, kind, state, variant))
    for variant in VARIANTS:
        row = judge(tmp_path, kind, variant)
        assert row is not None
        if (kind, variant) not in MISSED:
            assert row["place"] == 1, row
            assert row["within"] is not False or kind in COMPUTING, row
