"""The order in which a distributed test run hands out the files of tests."""

from __future__ import annotations

from tests.conftest import REPO
from tests.support.scheduling import CLUSTER, LONGEST, SHARED, turn


def test_every_file_that_is_named_exists() -> None:
    named = {*SHARED, *LONGEST} - {*SHARED.values()}
    assert [file for file in sorted(named) if not (REPO / file).is_file()] == []


def test_one_process_begins_with_what_computes_the_others_with_what_waits() -> None:
    units = ["tests/waits/test_waits.py", "tests/spark/test_fleet.py", LONGEST[-1], CLUSTER]
    waiting = sorted(units, key=lambda unit: turn(unit, True))
    computing = sorted(units, key=lambda unit: turn(unit, False))
    assert waiting == [CLUSTER, "tests/spark/test_fleet.py", LONGEST[-1], units[0]]
    assert computing == [LONGEST[-1], units[0], CLUSTER, "tests/spark/test_fleet.py"]
