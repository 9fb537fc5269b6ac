"""Rules act on a real Spark: queries that the analyzer recognised go into the rules' pools."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

import iqcar
from iqcar.tables import Tables, texts
from tests.support import SUPPORT
from tests.support.golden import recorded_app
from tests.support.listener_spark import (
    PLUGIN,
    App,
    records_of,
    run,
    spark_params,
)
from tests.support.ruled_apps import (
    applied,
    pool,
    pools_of,
    pools_of_tasks,
    rule,
    rules_file,
    scheduler_mode,
)

pytestmark = pytest.mark.spark
portable = pytest.mark.portable
"""What acts through Spark's own classes; how our files and switches are read is the same on all."""

JOBS = SUPPORT / "rules_jobs.py"


class Recurring(NamedTuple):
    """Queries recorded without rules, then run again with a pool for each and another constant.

    `plans` are the fingerprints of the contest's two queries.
    """

    home: Path
    plans: dict[str, str]
    assigned: dict[str, str]
    tables: Tables
    app: App


@pytest.fixture(scope="module", params=spark_params())
def recurring(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Recurring:
    """Two applications that read the same tables."""
    folder = tmp_path_factory.mktemp("recurring")
    first = run_jobs(request.param, folder, "before", "7", PLUGIN)
    before = iqcar.read([first.log])
    found = sorted({f for f in texts(before.queries, "fingerprint") if f})
    assigned = {fingerprint: f"pool-{n}" for n, fingerprint in enumerate(found)}
    path = rules_file(
        folder / "rules.json",
        [pool(name, 1 + n) for n, name in enumerate(assigned.values())],
        [rule(name, fingerprint=f) for f, name in assigned.items()],
    )
    app = run_jobs(request.param, folder, "after", "5", applied(path))
    plans = contest_plans(before, first.events)
    return Recurring(request.param, plans, assigned, iqcar.read([app.log]), app)


def run_jobs(home: Path, tables: Path, name: str, constant: str, conf: dict[str, str]) -> App:
    """Run the queries with a constant; the folder of the tables has one for each application."""
    (tables / name).mkdir()
    job = [str(JOBS), str(tables), constant]
    app = run(home, tables / name, job, master="local[4]", conf=conf)
    assert app.exit_code == 0, app.errors[-3000:]
    return app


def contest_plans(tables: Tables, events: list[dict[str, Any]]) -> dict[str, str]:
    """Fingerprints of the victim and of the bully."""
    hashes = tables.sql_executions.set_index("execution_id")["plan_hash"]
    return {
        name: f"plan:{hashes[event['executionId']]}"
        for name in ("victim", "bully")
        for event in events
        if event["Event"].endswith("SQLExecutionStart")
        and f"AS {name}" in event["physicalPlanDescription"]
    }


@portable
def test_every_task_ran_in_the_pool_of_its_querys_fingerprint(recurring: Recurring) -> None:
    wrong = [
        (fingerprint, name)
        for fingerprint, name in pools_of_tasks(recurring.tables)
        if recurring.assigned.get(fingerprint, "") != name
    ]
    assert wrong == []


@portable
def test_the_same_queries_with_other_constants_were_recognised(recurring: Recurring) -> None:
    assigned, tables = recurring.assigned, recurring.tables
    # A job that is no SQL execution is named by its description, even where that is a statement.
    again = {f for f in texts(tables.queries, "fingerprint") if f}
    assert all(f.startswith("name:SELECT") for f in again - assigned.keys())
    kinds = [f.partition(":")[0] for f in again & assigned.keys()]
    assert kinds.count("plan") >= 10
    assert {"name", "group", "call"} <= set(kinds)
    pools = {name for _, name in pools_of_tasks(tables)}
    assert len(pools - {""}) == len(again & assigned.keys())


@portable
def test_fair_is_switched_on_and_the_new_pools_are_recorded(recurring: Recurring) -> None:
    assigned, app = recurring.assigned, recurring.app
    assert scheduler_mode(app) == "FAIR"
    pools = pools_of(app)
    assert set(pools) == {*assigned.values(), "default"}
    for n, name in enumerate(assigned.values()):
        assert (pools[name]["weight"], pools[name]["mode"]) == (1 + n, "FIFO")
    # As it was without rules: first in, first out.
    assert (pools["default"]["weight"], pools["default"]["mode"]) == (1, "FIFO")


@pytest.mark.golden
def test_while_both_queries_run_tasks_are_launched_by_the_pools_weights(
    recurring: Recurring, tmp_path: Path
) -> None:
    path = rules_file(
        tmp_path / "rules.json",
        [pool("gold", 3), pool("iron", 1)],
        [
            rule("gold", fingerprint=recurring.plans["victim"]),
            rule("iron", fingerprint=recurring.plans["bully"]),
            rule("gold", fingerprint="plan:0123456789abcdef0123456789abcdef"),
        ],
    )

    def contest(folder: Path) -> App:
        job = [str(JOBS), str(folder), "7", "contest"]
        return run(recurring.home, folder, job, master="local[4]", conf=applied(path))

    folder = tmp_path / "contest"
    folder.mkdir()
    after = recorded_app("contest", recurring.home, folder, contest, JOBS, recurring.plans)
    assert after.exit_code == 0, after.errors[-3000:]
    gold, iron = launched_while_both_ran(after)
    # 3 to 1; a task that runs is never taken away, so the first four slots blur it.
    assert 2.0 < gold / iron < 4.5
    assert gold + iron > 100


def launched_while_both_ran(app: App) -> tuple[int, int]:
    """Tasks of the pools gold and iron that were launched before one of them ran out of tasks."""
    launches: dict[str, list[int]] = {"gold": [], "iron": []}
    for end in app.ends:
        (record,) = records_of(end)
        launches[record["pool"]].append(end["Task Info"]["Launch Time"])
    start = max(min(times) for times in launches.values())
    last = min(max(times) for times in launches.values())
    gold, iron = (sum(start <= t <= last for t in times) for times in launches.values())
    return gold, iron
