"""``--store``: what earlier runs told of queries is likely before the log of a later one tells."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pandas as pd
import pytest

from iqcar import diagnose, read
from iqcar.diagnosis import Diagnosis
from iqcar.enums import Request
from iqcar.history import add, known_demand
from iqcar.model.waits.columns import wait_column
from iqcar.show.json.analyze import result_schema
from iqcar.tables import Tables
from iqcar_lab.clusters.event_log import SyntheticLog, stage_info, task_metrics
from iqcar_lab.clusters.recorded import replayable
from iqcar_lab.clusters.simulation import Simulation
from iqcar_lab.clusters.steady import twins
from iqcar_lab.clusters.truth import costs_of_others
from tests.support.command import iqcar
from tests.support.contended_log import contended_log

START_MS = 1_700_000_000_000.0
DAY_MS = 86_400_000.0
Event = tuple[float, int, str, tuple[Any, ...], dict[str, Any]]


def fetching_log(run: Simulation, app_id: str, day: int = 0) -> SyntheticLog:
    """Write a run of one application as its log, without the plugin's records."""
    tables, waits = replayable(run, plain=True)
    start = START_MS + day * DAY_MS
    shift = start + 1000.0 - tables.queries["start_ms"].min()
    log = SyntheticLog(app_id).app("crowd", start)
    log.environment(spark_scheduler_mode="FAIR" if run.cluster.fair else "FIFO")
    events = [*_executors(run, tables, shift), *_queries(tables, shift)]
    events += _tasks(run, tables, waits, shift)
    for _, _, method, args, given in sorted(events, key=lambda event: event[:2]):
        getattr(log, method)(*args, **given)
    return log.end(float(np.ceil(tables.queries["end_ms"].max() + shift)) + 10.0)


def _executors(run: Simulation, tables: Tables, shift: float) -> Iterator[Event]:
    for number, one in enumerate(tables.executors.itertuples()):
        host = run.cluster.named()[one.host]
        at = float(np.floor(one.added_ms + shift))
        yield at, 0, "executor", (str(number), host, run.cluster.slots, at), {}
        if np.isfinite(one.removed_ms):
            end = float(np.floor(one.removed_ms + shift))
            yield end, 1, "executor_removed", (str(number), end), {}


def _queries(tables: Tables, shift: float) -> Iterator[Event]:
    tasks = np.bincount(tables.tasks["stage"])
    for q, query in enumerate(tables.queries.itertuples()):
        at, end = float(np.floor(query.start_ms + shift)), float(np.floor(query.end_ms + shift))
        said = {
            "spark.sql.execution.id": str(q), "spark.job.description": query.name,
            "spark.scheduler.pool": query.name,
        }  # fmt: skip
        of_query = tables.stages[tables.stages["query"] == q]
        infos = []
        for row, stage in of_query.iterrows():
            begins = float(np.floor(stage["submission_ms"] + shift))
            ends = float(np.floor(stage["completion_ms"] + shift))
            parents = [row - 1] if infos else []
            more = {"Number of Tasks": int(tasks[row]), "Stage Name": f"step {len(infos)}"}
            infos.append(stage_info(row, parents=parents, submission=begins, **more))
            yield begins, 4, "stage", (infos[-1], said), {}
            yield ends, 1, "stage_end", (infos[-1], ends), {}
        yield at, 2, "sql", (q,), {"description": query.name, "time": at}
        yield at, 3, "job", (q, infos, at, said), {}
        yield end, 2, "job_end", (q, end), {}
        yield end, 3, "sql_end", (q, end), {}


def _tasks(run: Simulation, tables: Tables, waits: pd.DataFrame, shift: float) -> Iterator[Event]:
    fetched = waits[wait_column(Request.SHUFFLE_FETCH)].to_numpy()
    cpu, hosts = waits["compute_ms"].to_numpy(), list(run.cluster.named())
    index = tables.tasks.groupby("stage").cumcount().to_numpy()
    for row, task in enumerate(tables.tasks.itertuples()):
        read = {
            "Remote Blocks Fetched": 1, "Local Blocks Fetched": 0, "Local Bytes Read": 0,
            "Fetch Wait Time": int(fetched[row]), "Total Records Read": 1,
            "Remote Bytes Read": int(task.remote_bytes), "Remote Bytes Read To Disk": 0,
        }  # fmt: skip
        metrics = task_metrics(
            Executor_Deserialize_Time=0, Executor_Deserialize_CPU_Time=0, JVM_GC_Time=0,
            Executor_Run_Time=int(task.finish_ms - task.launch_ms),
            Executor_CPU_Time=int(cpu[row] * 1e6), Result_Serialization_Time=0,
            Shuffle_Read_Metrics=read, Input_Metrics={}, Shuffle_Write_Metrics={},
        )  # fmt: skip
        launch, finish = (float(np.floor(ms + shift)) for ms in (task.launch_ms, task.finish_ms))
        where = {"host": hosts[task.host], "executor": str(task.executor), "index": int(index[row])}
        given = {"stage": int(task.stage), "metrics": metrics, "launch": launch, "finish": finish}
        yield finish, 0, "task", (row,), {**given, **where}


SEED = 3
"""Five queries that are together all along, of which the log alone leaves much open."""


@pytest.fixture(scope="module")
def crowd() -> Simulation:
    return Simulation(*twins("steady fetches", SEED).loud, SEED)


@pytest.fixture(scope="module")
def place(crowd: Simulation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("crowd")
    for q, plan in enumerate(crowd.plans):
        alone = Simulation(crowd.cluster, [replace(plan, submit=0.0)], SEED + 100)
        fetching_log(alone, f"alone-{q}", q).write(folder / "alone" / f"alone-{q}")
    fetching_log(crowd, "crowd", 40).write(folder / "crowd")
    assert add(str(folder / "store"), [folder / "alone"], processes=1).added == len(crowd.plans)
    return folder


def off(crowd: Simulation, found: Diagnosis) -> float:
    """Mean error of what others are said to have cost, as a share of each query's run."""
    true = dict(zip((plan.name for plan in crowd.plans), costs_of_others(crowd), strict=True))
    queries, cost = found.tables.queries, found.blame.cost
    assert cost is not None
    said = cost.lost_ms / queries["duration_ms"].to_numpy(np.float64)
    return float(np.abs(said - [true[name] for name in queries["name"]]).mean())


@pytest.mark.long
def test_logs_of_runs_alone_make_a_crowd_known(crowd: Simulation, place: Path) -> None:
    tables = read([place / "crowd"])
    without = diagnose(tables, rules=False)
    found = diagnose(tables, rules=False, recalled=known_demand(str(place / "store"), tables))
    assert off(crowd, found) < 0.4 * off(crowd, without) < 0.4 * 0.06


def test_the_order_of_tasks_in_a_log_changes_nothing(crowd: Simulation, place: Path) -> None:
    """A log lists tasks as they ended, the simulator as they started."""
    assert off(crowd, diagnose(read([place / "crowd"]), rules=False)) < 0.06


@pytest.mark.long
def test_the_json_says_what_is_known_from_history(place: Path) -> None:
    done = iqcar("analyze", place / "crowd", "--store", place / "store", "--json", "-")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    jsonschema.validate(result, json.loads(result_schema()))
    assert {rate["evidence"] for rate in result["demand"]["own_rates"]} >= {"history", "inferred"}
    plain = json.loads(iqcar("analyze", place / "crowd", "--json", "-").stdout)
    assert "history" not in {rate["evidence"] for rate in plain["demand"]["own_rates"]}


@pytest.mark.long
def test_a_question_and_a_report_take_the_store(place: Path, tmp_path: Path) -> None:
    store, page = place / "store", tmp_path / "page.html"
    asked = ("whatif", place / "crowd", "--slots", "+8", "--json", "-")
    without, found = (json.loads(iqcar(*asked, *more).stdout) for more in ((), ("--store", store)))
    assert without != found
    done = iqcar("report", place / "crowd", "--store", store, "--out", page)
    assert done.returncode == 0, done.stderr


def test_a_store_of_other_queries_says_so(place: Path, tmp_path: Path) -> None:
    log = contended_log().write(tmp_path / "app-1")
    done = iqcar("analyze", log, "--store", place / "store", "--json", "-")
    assert done.returncode == 0, done.stderr
    (said,) = (doubt for doubt in json.loads(done.stdout)["doubts"] if "the store" in doubt)
    assert "it knows none of these hosts and no run of these queries" in said


def test_there_must_be_a_store(place: Path, tmp_path: Path) -> None:
    done = iqcar("analyze", place / "crowd", "--store", tmp_path / "none")
    assert done.returncode != 0
    assert "there is no store here" in done.stderr
