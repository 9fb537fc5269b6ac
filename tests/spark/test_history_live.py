"""On a real Spark: a query that ran alone once is known beside a reader that never stops."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iqcar.history import add
from tests.support import SUPPORT
from tests.support.command import iqcar as command
from tests.support.limited_store import limited_store
from tests.support.listener_spark import run, spark_params

pytestmark = [pytest.mark.long("analyzer/iqcar/logs", "listener/src"), pytest.mark.spark]

JOB = SUPPORT / "steady_reader_jobs.py"
CONF = {
    "spark.sql.files.maxPartitionBytes": "1g",
    "spark.sql.files.openCostInBytes": "1g",
    # Else every page is a request of its own.
    "spark.hadoop.parquet.hadoop.vectored.io.enabled": "false",
}
VICTIMS = 8
ROWS = 250_000
"""Of a row group, 2 MB: half a second at the speed of one reader."""
FILES = {"victim": (1, 1), "reader": (3, 30)}
"""Files, and row groups of each: the reader ends after the last victim."""
EACH, TOGETHER = 4e6, 9e6
"""Bytes per second: two readers are in nobody's way, four are."""


@pytest.fixture(scope="module", params=spark_params())
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Plain logs of the victims alone and beside the reader, and a store that holds the former."""
    folder = tmp_path_factory.mktemp("steady")
    random = np.random.default_rng(1)
    for name, (files, groups) in FILES.items():
        (folder / "data" / name).mkdir(parents=True)
        for file in range(files):
            pq.write_table(
                pa.table({"value": random.integers(0, 1 << 60, ROWS * groups)}),
                folder / "data" / name / f"part-{file}.parquet",
                compression="none", use_dictionary=False, row_group_size=ROWS,
            )  # fmt: skip
    with limited_store(folder / "data", EACH, TOGETHER) as store:
        for when in ("alone", "beside"):
            (folder / when).mkdir()
            store.shared_s.clear()
            job = [str(JOB), store.address, str(VICTIMS), when]
            done = run(request.param, folder / when, job, master="local[4]", conf=CONF)
            assert done.exit_code == 0, done.errors[-3000:]
            (folder / when / "shared").write_text(str(store.shared_s["victim"]))
    assert add(str(folder / "store"), [folder / "alone" / "log"], processes=1).added == 1
    return folder


def victims(place: Path, *more: object) -> np.ndarray:
    """Median duration, and what others cost: lowest, likely, and highest, in ms."""
    done = command("analyze", place / "beside" / "log", *more, "--json", "-")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    evidence = {rate["evidence"] for rate in result["demand"]["own_rates"]}
    assert ("history" in evidence) == bool(more)
    found = [query for query in result["queries"] if query["name"] == "victim"]
    names = ("duration_ms", "lost_low_ms", "lost_to_others_ms", "lost_high_ms")
    return np.median([[query[name] for name in names] for query in found], axis=0)


def test_a_store_tells_what_the_log_alone_cannot(place: Path) -> None:
    # By the store's own account: durations differ by what else the machine does, too.
    shared_s = {when: float((place / when / "shared").read_text()) for when in ("alone", "beside")}
    true = 1000 * shared_s["beside"] / VICTIMS
    lasted, *without = victims(place)
    _, *found = victims(place, "--store", place / "store")
    print(f"{true=:.0f} {lasted=:.0f} {without=} {found=}")
    assert shared_s["alone"] == 0
    assert true > 200
    off = abs(found[1] - true)
    assert off < 0.1 * lasted
    # On a busy machine times vary, so that the log tells, too.
    assert off < max(abs(without[1] - true), 0.05 * lasted)
