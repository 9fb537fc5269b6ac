"""``--store``: what earlier runs told of queries is likely before the log of a later one tells."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from iqcar import diagnose, read
from iqcar.diagnosis import Diagnosis
from iqcar.history import add, known_demand
from iqcar.show.json.analyze import result_schema
from iqcar_lab.clusters.simulation import Simulation
from iqcar_lab.clusters.steady import twins
from iqcar_lab.clusters.truth import costs_of_others
from tests.support.command import iqcar
from tests.support.contended_log import contended_log
from tests.support.fetching_log import fetching_log

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


def test_logs_of_runs_alone_make_a_crowd_known(crowd: Simulation, place: Path) -> None:
    tables = read([place / "crowd"])
    without = diagnose(tables, rules=False)
    found = diagnose(tables, rules=False, recalled=known_demand(str(place / "store"), tables))
    assert off(crowd, found) < 0.4 * off(crowd, without) < 0.4 * 0.06


def test_the_order_of_tasks_in_a_log_changes_nothing(crowd: Simulation, place: Path) -> None:
    """A log lists tasks as they ended, the simulator as they started."""
    assert off(crowd, diagnose(read([place / "crowd"]), rules=False)) < 0.06


def test_the_json_says_what_is_known_from_history(place: Path) -> None:
    done = iqcar("analyze", place / "crowd", "--store", place / "store", "--json", "-")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    jsonschema.validate(result, json.loads(result_schema()))
    assert {rate["evidence"] for rate in result["demand"]["own_rates"]} >= {"history", "inferred"}
    plain = json.loads(iqcar("analyze", place / "crowd", "--json", "-").stdout)
    assert "history" not in {rate["evidence"] for rate in plain["demand"]["own_rates"]}


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


def test_there_must_be_a_store_and_no_spark(place: Path, tmp_path: Path) -> None:
    done = iqcar("analyze", place / "crowd", "--store", tmp_path / "none")
    assert done.returncode != 0
    assert "there is no store here" in done.stderr
    done = iqcar("analyze", place / "crowd", "--store", place / "store", "--on-spark")
    assert "--store: does not go with --on-spark" in done.stderr
