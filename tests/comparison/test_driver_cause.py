"""A longer time in the driver is named by its part, and by what the driver did there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from iqcar.comparison.compare_sets import compare
from tests.support.compared_runs import QueryWork, run_log


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (100.0, 9_100.0, "the driver took 9.0 s longer before its first stage"),
        (9_100.0, 100.0, "the driver took 9.0 s less long before its first stage"),
    ],
)
def test_a_change_in_the_driver_names_its_part(
    tmp_path: Path, before: float, after: float, said: str
) -> None:
    sides = []
    for side, driver_ms in (("before", before), ("after", after)):
        folder = tmp_path / side
        folder.mkdir()
        for run in range(3):
            work = {"q": replace(QueryWork(), driver_ms=driver_ms + run)}
            run_log(f"{side}-{run}", work, float(run), noise=0.01, seed=run).write(
                folder / f"{side}-{run}"
            )
        sides.append(folder)
    found = compare(*sides)
    causes = found.causes[(found.causes["cause"] == "metric:driver_ms").to_numpy()]
    assert set(causes["sentence"]) == {said}
