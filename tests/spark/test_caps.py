"""Caps on a real Spark: no more tasks of a pool run at once, and no job waits for ever."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np
import pytest

import iqcar
from tests.spark.test_attach import NO_FUNCTIONS
from tests.support import SUPPORT
from tests.support.listener_spark import App, run, spark_params, spark_version
from tests.support.ruled_apps import applied, pool, rule, rules_file

pytestmark = [pytest.mark.spark, pytest.mark.smoke, pytest.mark.portable]
SLOTS = 4
POOLS = [
    pool("two", cap=2, strict=True),
    pool("some", cap=3, cap_share=0.3, strict=True),
    pool("loose", cap=2),
    pool("shared", cap=3, strict=True),
]
IN_POOL = {
    "two": ("strict", "strict rdd", "strict beside", "strict barrier", "strict again"),
    "some": ("share",),
    "loose": ("loose",),
    "shared": ("one of a pool", "two of a pool"),
}


class Capped(NamedTuple):
    spark: str
    app: App
    at_once: dict[str, int]


@pytest.fixture(scope="module", params=spark_params())
def capped(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Capped:
    folder = tmp_path_factory.mktemp("caps")
    rules = [rule(name, description=job) for name, jobs in IN_POOL.items() for job in jobs]
    path = rules_file(folder / "rules.json", POOLS, rules)
    jobs = str(SUPPORT / "capped_jobs.py")
    app = run(request.param, folder, [jobs], master=f"local[{SLOTS}]", conf=applied(path))
    assert app.exit_code == 0, app.errors[-3000:]
    (line,) = (line for line in app.output.splitlines() if line.startswith("SEEN "))
    return Capped(spark_version(request.param), app, json.loads(line[5:]))


@pytest.mark.long
@pytest.mark.parametrize(
    ("job", "most"),
    [
        ("strict", 2),
        ("strict rdd", 2),
        ("strict stream", 2),
        ("strict beside", 2),
        ("strict again", 2),
        ("share", 1),
    ],
)
def test_no_more_tasks_than_the_cap_run_at_once(capped: Capped, job: str, most: int) -> None:
    if job not in capped.at_once and capped.spark.startswith("3.3"):
        pytest.skip(NO_FUNCTIONS)
    assert capped.at_once[job] == most


@pytest.mark.long
def test_two_jobs_of_a_pool_share_its_cap(capped: Capped) -> None:
    assert max(capped.at_once["one of a pool"], capped.at_once["two of a pool"]) <= 3


def test_others_are_not_held(capped: Capped) -> None:
    """Beside two tasks of the capped pool another job has the other slots."""
    assert capped.at_once["other"] >= SLOTS - 2


def test_idle_slots_are_given_unless_the_cap_is_strict(capped: Capped) -> None:
    assert capped.at_once["loose"] == SLOTS


def test_a_barrier_stage_runs_whole(capped: Capped) -> None:
    if capped.spark.startswith("3.3"):
        pytest.skip(NO_FUNCTIONS)
    assert capped.at_once["strict barrier"] == 3


def test_the_log_tells_the_caps(capped: Capped) -> None:
    pools = iqcar.read([capped.app.log]).pools.drop_duplicates("name", keep="last")
    found: dict[str, Any] = {row.name: (row.cap, row.strict) for row in pools.itertuples(False)}
    assert found["two"] == (2, True)
    assert found["some"] == (1, True)
    assert found["loose"] == (2, False)
    assert np.isnan(found["default"][0])
