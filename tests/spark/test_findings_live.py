"""On a real Spark, the first finding names what was planted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.listener_spark import spark_params
from tests.support.planted_causes import CAUSES, Planted, Run, judge

USUAL = "lock"
"""The one cause that is tried outside of long runs: its tasks wait, whatever else runs."""
SECOND = ("locality",)
"""Causes that come second at times: executors that are new for the plant are cold, too."""

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
def test_what_was_planted_is_found_first(planted: Planted, kind: str, tmp_path: Path) -> None:
    """What mending it saves is measured by the experiment: it depends on what runs beside."""
    planted.record(Run(tmp_path, kind, "was", "plugin"))
    row = judge(tmp_path, kind, "plugin")
    assert row is not None
    assert row["place"] is not None
    assert row["place"] == 1 or (kind in SECOND and row["place"] <= 2), row
