"""Rules act on a real Spark: queries that the analyzer recognised go into the rules' pools."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import iqcar
from iqcar.tables import Tables, texts
from tests.conftest import measures_again
from tests.support import SUPPORT
from tests.support.listener_spark import (
    APP_TIMEOUT_S,
    JAR,
    LISTENER_ONLY,
    PLUGIN,
    App,
    read_events,
    records_of,
    run,
    run_applications,
    spark_params,
)
from tests.support.standalone_cluster import wait_until

pytestmark = pytest.mark.spark
portable = pytest.mark.portable
"""What acts through Spark's own classes; how our files and switches are read is the same on all."""

JOBS = SUPPORT / "rules_jobs.py"
FAIR = {"spark.scheduler.mode": "FAIR"}
REFUSED = "iqcar: no rules are applied"


def pool(name: str, weight: Any = 1, **more: Any) -> dict[str, Any]:
    return {"name": name, "weight": weight, "min_share": 0, "mode": "FIFO", **more}


def rule(pool_name: str, **match: str) -> dict[str, str]:
    none = {"fingerprint": "", "description": "", "job_group": ""}
    return {"pool": pool_name, "rule_id": f"R-{pool_name}", **none, **match}


SAME_CALL_SITES = "--driver-java-options=-Dsun.reflect.inflationThreshold=2147483647"
"""JDK 17 generates code for a method that reflection calls often, and Spark then finds no line of
it: a driver's second application would have other call sites than its first."""
FIRST = rule("first", job_group="many")


def rules_file(path: Path, pools: list[Any], assignments: list[Any], **more: Any) -> str:
    """Write a compiled file of rules; return its path."""
    content = {
        "schema_version": "1", "iqcar_version": "0.1.0", "rules": [], "notes": [],
        "pools": pools, "assignments": assignments, **more,
    }  # fmt: skip
    path.write_text(json.dumps(content), encoding="utf-8")
    return str(path)


def applied(path: str) -> dict[str, str]:
    return {**PLUGIN, "spark.iqcar.rules": path}


def scheduler_mode(app: App) -> str:
    (environment_update,) = (
        e for e in app.events if e["Event"] == "SparkListenerEnvironmentUpdate"
    )
    return str(environment_update["Spark Properties"].get("spark.scheduler.mode", "FIFO"))


def pools_of(app: App) -> dict[str, dict[str, Any]]:
    """The pools that the last event of the scheduler lists."""
    return {one["name"]: one for one in app.own_events()[-1]["pools"]}


def pools_in_records(app: App, group: str) -> set[str | None]:
    return {record.get("pool") for record in app.records(group)}


def pools_of_tasks(tables: Tables) -> Iterator[tuple[str, str]]:
    """Fingerprint of each task's query and the pool in the task's record."""
    fingerprints = texts(tables.queries, "fingerprint")
    records = tables.task_records
    query = tables.tasks["query"].to_numpy()
    for task, name in zip(records["task"].tolist(), texts(records, "pool"), strict=True):
        yield fingerprints[query[task]], name


class Recurring(NamedTuple):
    """Queries recorded without rules, then run again with a pool for each and other constants.

    `plans` are the fingerprints of the contest's two queries, which ran in the first run only.
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
    """Two applications, one after the other, in one driver."""
    folder = tmp_path_factory.mktemp("recurring")
    (folder / "after").mkdir()
    again, log = folder / "again.json", folder / "after" / "log"
    log.mkdir()
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(1) as beside:
        patch.setenv("LAKE", str(folder))
        patch.setenv("AGAIN", str(again))
        conf: dict[str, str] = {}
        driver = beside.submit(
            *(run, request.param, folder, [str(JOBS)]),
            master="local[4]",
            conf=PLUGIN,
            options=["--jars", str(JAR), SAME_CALL_SITES],
        )
        try:
            first = "log of the first run"
            wait_until(lambda: driver.done() or ended_logs(folder), first, APP_TIMEOUT_S)
            before = iqcar.read([folder / "log"])
            found = sorted({f for f in texts(before.queries, "fingerprint") if f})
            assigned = {fingerprint: f"pool-{n}" for n, fingerprint in enumerate(found)}
            path = rules_file(
                folder / "rules.json",
                [pool(name, 1 + n) for n, name in enumerate(assigned.values())],
                [rule(name, fingerprint=f) for f, name in assigned.items()],
            )
            conf = {"spark.eventLog.dir": log.as_uri(), "spark.iqcar.rules": path}
        finally:  # whatever happened here, the driver goes on to its end
            (folder / "written").write_text(json.dumps(conf), encoding="utf-8")
            (folder / "written").rename(again)
        both = driver.result()
    assert both.exit_code == 0, both.errors[-3000:]
    app = App(0, both.output, both.errors, read_events(folder / "after"))
    plans = contest_plans(before, both.events)
    return Recurring(request.param, plans, assigned, iqcar.read([log]), app)


def ended_logs(folder: Path) -> list[Path]:
    return [log for log in (folder / "log").glob("*") if log.suffix not in (".inprogress", ".crc")]


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


@measures_again
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
    job = [str(JOBS), "contest"]
    after = run(recurring.home, tmp_path, job, master="local[4]", conf=applied(path))
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


SPARKS_OWN = """<?xml version="1.0"?>
<allocations>
  <pool name="gold"><schedulingMode>FIFO</schedulingMode><weight>3</weight></pool>
  <pool name="first"><schedulingMode>FIFO</schedulingMode><weight>7</weight></pool>
</allocations>
"""
FAULTS = {
    "rules.apply": "iqcar: no rules are applied",
    "rules.addTaskSetManager": "choosing a pool failed; the job is not affected",
    "rules.onJobStart": "finding a job's rule failed; the job is not affected",
}
"""Places where the plugin fails, and what it says then."""
WATCH_FAILS = {"iqcar.test.fail": "rules.watch", "spark.iqcar.rules.watchMs": "100"}


@pytest.fixture(scope="module", params=spark_params())
def ruled(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, App]:
    """Applications with rules that act. They have nothing but RDDs; each workload is a group and
    described by its name."""
    folder = tmp_path_factory.mktemp("ruled")
    (folder / "pools.xml").write_text(SPARKS_OWN)
    allocation = {"spark.scheduler.allocation.file": (folder / "pools.xml").as_uri()}
    first = applied(rules_file(folder / "first.json", [pool("first", 2)], [FIRST]))
    by_all = rules_file(
        folder / "by-all.json",
        [pool("first", 2, min_share=1, mode="FAIR"), pool("second"), pool("default", 5)],
        [
            rule("second", job_group="many", description="another"),
            FIRST,
            rule("second", fingerprint="name:many"),
            rule("second", description="lock"),
            rule("default", fingerprint="name:never seen"),
        ],
    )
    beside = rules_file(
        folder / "beside.json", [pool("first", 2)], [FIRST, rule("gold", job_group="lock")]
    )
    listener = {**LISTENER_ONLY, **FAIR, "spark.iqcar.rules": first["spark.iqcar.rules"]}
    return run_applications(
        request.param,
        folder,
        {
            "by all": (("many:20", "lock", "spin", "pooled:gold"), applied(by_all)),
            "beside Spark's own": (("many:20", "lock"), {**applied(beside), **allocation}),
            "listener alone": (("many:20",), listener),
            **{place: (("many:20",), {**first, "iqcar.test.fail": place}) for place in FAULTS},
            "rules.watch": (("many:20", "spin"), {**first, **WATCH_FAILS}),
        },
    )


@portable
def test_group_description_and_order_decide_and_the_rest_stays_where_it_was(
    ruled: dict[str, App],
) -> None:
    app = ruled["by all"]
    assert app.exit_code == 0, app.errors[-3000:]
    assert pools_in_records(app, "many") == {"first"}
    assert pools_in_records(app, "lock") == {"second"}
    assert pools_in_records(app, "spin") == {None}
    assert pools_in_records(app, "pooled") == {"gold"}
    pools = pools_of(app)
    first = {"name": "first", "mode": "FAIR", "weight": 2, "minShare": 1}
    assert pools["first"] == {**first, "cap": 0, "strict": False}
    assert pools["default"]["weight"] == 5


@portable
@pytest.mark.parametrize("place", FAULTS)
def test_whatever_fails_jobs_run_as_without_rules(ruled: dict[str, App], place: str) -> None:
    app = ruled[place]
    assert app.exit_code == 0, app.errors[-3000:]
    assert pools_in_records(app, "many") == {None}
    assert app.errors.count(FAULTS[place]) == 1


@portable
def test_a_watcher_that_fails_leaves_the_rules_that_act(ruled: dict[str, App]) -> None:
    app = ruled["rules.watch"]
    assert app.exit_code == 0, app.errors[-3000:]
    assert pools_in_records(app, "many") == {"first"}
    assert app.errors.count("watching the rules failed; the job is not affected") == 1


@portable
def test_the_listener_alone_applies_rules_where_fair_was_chosen(ruled: dict[str, App]) -> None:
    app = ruled["listener alone"]
    assert app.exit_code == 0, app.errors[-3000:]
    assert pools_in_records(app, "many") == {"first"}
    assert pools_of(app)["first"]["weight"] == 2


@portable
def test_pools_of_sparks_own_file_stay_unless_a_rule_redefines_them(ruled: dict[str, App]) -> None:
    app = ruled["beside Spark's own"]
    assert app.exit_code == 0, app.errors[-3000:]
    assert pools_in_records(app, "many") == {"first"}
    assert pools_in_records(app, "lock") == {"gold"}
    pools = pools_of(app)
    assert (pools["gold"]["weight"], pools["first"]["weight"]) == (3, 2)


BAD = {
    "not compiled": ('{"schema_version": "1", "rules": []}', 'has no "pools"; compile it first'),
    "weight": (
        '{"schema_version": "1", "pools": [{"name": "a", "weight": 0}]}',
        "pools[0]: weight is 0, not a whole number from 1",
    ),
    "no such pool": (
        '{"schema_version": "1", "pools": [],'
        ' "assignments": [{"pool": "gold", "fingerprint": "name:x"}]}',
        'assignments[0]: there is no pool "gold"',
    ),
    "missing": ("", "cannot be read"),
}
"""Content of a file of rules, and what is said of it."""


@pytest.fixture(scope="module", params=spark_params())
def unruled(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, App]:
    """Applications with rules that cannot act."""
    folder = tmp_path_factory.mktemp("unruled")
    for what, (content, _) in BAD.items():
        if content:
            (folder / f"{what}.json").write_text(content)
    bad = {what: applied(str(folder / f"{what}.json")) for what in BAD}
    good = rules_file(folder / "good.json", [pool("first")], [FIRST])
    confs = {
        **{
            what: {**bad[what], "spark.iqcar.rules.watchMs": "0"}
            for what in ("weight", "not compiled", "missing")
        },
        "off": {**applied(good), "spark.iqcar.enabled": "false"},
        "listener alone": {**LISTENER_ONLY, "spark.iqcar.rules": good},
        **{
            f"strict, {what}": {**bad[what], "spark.iqcar.rules.strict": "true"}
            for what in ("no such pool", "missing")
        },
    }
    plans = {name: (("many:20",), conf) for name, conf in confs.items()}
    return run_applications(request.param, folder, plans)


@pytest.mark.parametrize("what", ["weight", "not compiled", "missing"])
def test_bad_rules_that_are_not_watched_are_reported_once_and_change_nothing(
    unruled: dict[str, App], what: str
) -> None:
    app = unruled[what]
    assert app.exit_code == 0, app.errors[-3000:]
    (line,) = (line for line in app.errors.splitlines() if REFUSED in line)
    assert "WARN" in line
    assert BAD[what][1] in line
    assert f"/{what}.json" in line
    assert scheduler_mode(app) == "FIFO"
    assert pools_in_records(app, "many") == {None}


@pytest.mark.parametrize("what", ["no such pool", "missing"])
def test_with_strict_rules_the_application_does_not_start(
    unruled: dict[str, App], what: str
) -> None:
    app = unruled[f"strict, {what}"]
    assert app.exit_code != 0
    assert "DONE" not in app.output
    assert f"RulesRefused: {REFUSED}" in app.errors
    assert BAD[what][1] in app.errors


def test_the_switch_leaves_the_scheduler_as_if_there_were_no_rules(
    unruled: dict[str, App],
) -> None:
    app = unruled["off"]
    assert app.exit_code == 0
    assert scheduler_mode(app) == "FIFO"
    assert "rules" not in "".join(line for line in app.errors.splitlines() if "iqcar:" in line)


def test_the_listener_alone_cannot_choose_fair_and_says_so(unruled: dict[str, App]) -> None:
    app = unruled["listener alone"]
    assert app.exit_code == 0, app.errors[-3000:]
    assert pools_in_records(app, "many") == {None}
    (line,) = (line for line in app.errors.splitlines() if REFUSED in line)
    assert "spark.scheduler.mode: is not FAIR" in line
