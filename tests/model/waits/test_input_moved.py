"""Input of an object store passes no disk of the host."""

from __future__ import annotations

import numpy as np
import pytest

from iqcar.enums import WaitClass
from iqcar.model.waits.input_moved import input_moved
from iqcar.tables import Tables
from tests.model.waits.test_waits import WHOLE
from tests.support.tiny_tables import tiny_tables

NO_WAITS: dict[str, object] = {f"{kind}_ms": 0.0 for kind in WaitClass}
READS = {**WHOLE, "input_bytes": 4096.0, "input_records": 10.0}


def tables_of(*waited: dict[str, object]) -> Tables:
    """A stage whose tasks read the same, with a record each."""
    records = [{"task": row, **NO_WAITS, **one} for row, one in enumerate(waited)]
    tasks = [READS] * len(waited)
    return tiny_tables(tasks=tasks, stages=[{}], task_records=records)


@pytest.mark.parametrize(
    ("waited", "moved"),
    [
        (({"object_store_ms": 90.0, "io_read_ms": 1.0}, {}), 0.0),  # nor a task that did not wait
        (({"object_store_ms": 1.0, "io_read_ms": 90.0}, {}), 4096.0),
        (({"object_store_ms": np.nan, "io_read_ms": 90.0}, {}), 4096.0),
        (({}, {}), 4096.0),
    ],
)
def test_a_stage_that_waited_for_a_store_moved_nothing_through_disks(
    waited: tuple[dict[str, object], ...], moved: float
) -> None:
    assert input_moved(tables_of(*waited)).tolist() == [moved, moved]


def test_a_record_of_no_task_says_nothing_of_others() -> None:
    tables = tables_of({"task": -1, "object_store_ms": 90.0}, {"io_read_ms": 1.0})
    assert input_moved(tables).tolist() == [4096.0, 4096.0]


def test_without_records_input_is_of_files() -> None:
    tables = tiny_tables(tasks=[READS], stages=[{}])
    assert input_moved(tables).tolist() == [4096.0]
    unknown = tiny_tables(tasks=[{**READS, "input_bytes": np.nan}], stages=[{}])
    assert input_moved(unknown).tolist() == [160.0]  # of its rows
