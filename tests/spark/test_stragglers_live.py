"""Stragglers of a real Spark with the plugin, whose causes are known beforehand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import iqcar
from iqcar.causes.stragglers.straggler_result import Stragglers
from iqcar.pipeline import stragglers_of
from iqcar_lab.printed.bigroots import printed_stragglers
from tests.support import SUPPORT
from tests.support.golden import recorded_app
from tests.support.listener_spark import PLUGIN, App, run_alone, spark_params

pytestmark = [pytest.mark.spark, pytest.mark.golden]

JOB = SUPPORT / "straggling_jobs.py"


@pytest.fixture(scope="module", params=spark_params())
def tables(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):

    def straggle(folder: Path) -> App:
        conf = {**PLUGIN, "spark.python.worker.reuse": "true"}
        core = ["taskset", "-c", "0"]
        job = [str(JOB)]
        return run_alone(request.param, folder, job, master="local[1]", conf=conf, prefix=core)

    folder = tmp_path_factory.mktemp("straggling")
    done = recorded_app("straggling", request.param, folder, straggle, JOB, PLUGIN)
    assert done.exit_code == 0, done.errors[-3000:]
    return iqcar.read([folder / "log"], query_by="job-group")


def of_query(found: Stragglers, name: str):
    """Stragglers of a query, and their causes."""
    names = np.array([found.labels.query(q) for q in found.stragglers["query"]], dtype=object)
    mine = found.stragglers[names == name]
    return mine, found.causes[found.causes["straggler"].isin(mine.index)]


def test_tasks_that_processes_outside_spark_squeezed_waited_for_the_processor(tables) -> None:
    found = stragglers_of(tables)
    mine, causes = of_query(found, "squeezed")
    assert len(mine) >= 1
    worst = causes[causes["straggler"] == mine.index[0]]
    cpu = worst[worst["cause"] == "host-cpu"]
    assert cpu["evidence"].tolist() == ["measured"], worst["sentence"].tolist()
    assert cpu["explained"].iloc[0] > 0.5
    # Spark ran one task at a time: no other query was in its way, and its own tasks hardly.
    sources = found.sources[found.sources["cause"] == cpu.index[0]].set_index("kind")["share"]
    assert "query" not in sources
    assert sources["unattributed"] > 0.5


def test_the_task_with_the_heavy_key_is_skewed(tables) -> None:
    mine, causes = of_query(stragglers_of(tables), "skewed")
    worst = causes[causes["straggler"] == mine.index[0]]
    assert "shuffle-skew" in set(worst["cause"]), worst["sentence"].tolist()


def test_the_method_as_printed_works_on_the_same_samples(tables) -> None:
    found = printed_stragglers(tables)
    named = set(found.loc[found["feature"] != "", "task"])
    skewed = tables.queries.index[tables.queries["name"] == "skewed"]
    assert named & set(tables.tasks.index[tables.tasks["query"].isin(skewed)])
