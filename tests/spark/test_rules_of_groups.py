"""Rules for groups of jobs act on a real Spark: beside its own pools, advice, and what fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from iqcar.rules.compile_pools import parse_rules_file
from tests.rules.test_rules_advice import JAVA_FILE
from tests.support.listener_spark import LISTENER_ONLY, App, run_applications, spark_params
from tests.support.ruled_apps import (
    FIRST,
    REFUSED,
    applied,
    pool,
    pools_in_records,
    pools_of,
    rule,
    rules_file,
    scheduler_mode,
)

pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.portable]
FAIR = {"spark.scheduler.mode": "FAIR"}
SPARKS_OWN = """<?xml version="1.0"?>
<allocations>
  <pool name="gold"><schedulingMode>FIFO</schedulingMode><weight>3</weight></pool>
  <pool name="first"><schedulingMode>FIFO</schedulingMode><weight>7</weight></pool>
</allocations>
"""
FAULTS = {
    "applying_rules": REFUSED,
    "choosing_a_pool": "choosing a pool failed; the job is not affected",
    "finding_a_job_s_rule": "finding a job's rule failed; the job is not affected",
}
"""Places where the plugin fails, and what it says then."""
WATCHING = "watching_the_rules"
WATCH_FAILS = {"iqcar.test.fail": WATCHING, "spark.iqcar.rules.watchMs": "100"}
ADVICE, BESIDE = "advice alone", "advice beside others"


def advice_files(folder: Path) -> dict[str, str]:
    """Write the file of the analyzer that holds advice and other rules, and its advice alone."""
    beside = json.loads(JAVA_FILE.read_text(encoding="utf-8"))
    for part in (*beside["rules"], *beside["assignments"]):
        part["fingerprint"] = part["fingerprint"].replace("name:etl", "name:many")
    advice = [one for one in beside["rules"] if one["rule-type"] == "ADVICE"]
    assert advice
    named = [{**one, "fingerprint": "name:many"} for one in advice]
    alone = {**beside, "rules": named, "pools": [], "assignments": []}
    paths = {}
    for name, file in ((BESIDE, beside), (ADVICE, alone)):
        path = folder / f"{name}.json"
        path.write_text(json.dumps(file), encoding="utf-8")
        parse_rules_file(path.read_bytes())
        paths[name] = str(path)
    return paths


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
            **{
                place: (("many:20", "pair"), {**first, "iqcar.test.fail": place})
                for place in FAULTS
            },
            WATCHING: (("many:20", "spin"), {**first, **WATCH_FAILS}),
            # A file that is watched switches FAIR on, because other rules may come.
            **{
                name: (("many:20",), {**applied(path), "spark.iqcar.rules.watchMs": "0"})
                for name, path in advice_files(folder).items()
            },
        },
    )


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


@pytest.mark.parametrize("place", FAULTS)
def test_whatever_fails_jobs_run_as_without_rules(ruled: dict[str, App], place: str) -> None:
    app = ruled[place]
    assert app.exit_code == 0, app.errors[-3000:]
    assert pools_in_records(app, "many") == {None}
    assert app.errors.count(FAULTS[place]) == 1


def test_rules_that_fail_to_start_leave_jobs_first_in_first_out(ruled: dict[str, App]) -> None:
    app = ruled["applying_rules"]
    assert scheduler_mode(app) == "FIFO"
    assert app.own_events()[-1]["mode"] == "FIFO"
    stages = [end["Stage ID"] for end in app.group("pair")]
    assert len(stages) == 16
    assert stages == sorted(stages)


def test_a_watcher_that_fails_leaves_the_rules_that_act(ruled: dict[str, App]) -> None:
    app = ruled[WATCHING]
    assert app.exit_code == 0, app.errors[-3000:]
    assert pools_in_records(app, "many") == {"first"}
    assert app.errors.count("watching the rules failed; the job is not affected") == 1


def test_the_listener_alone_applies_rules_where_fair_was_chosen(ruled: dict[str, App]) -> None:
    app = ruled["listener alone"]
    assert app.exit_code == 0, app.errors[-3000:]
    assert pools_in_records(app, "many") == {"first"}
    assert pools_of(app)["first"]["weight"] == 2


def test_pools_of_sparks_own_file_stay_unless_a_rule_redefines_them(ruled: dict[str, App]) -> None:
    app = ruled["beside Spark's own"]
    assert app.exit_code == 0, app.errors[-3000:]
    assert pools_in_records(app, "many") == {"first"}
    assert pools_in_records(app, "lock") == {"gold"}
    pools = pools_of(app)
    assert (pools["gold"]["weight"], pools["first"]["weight"]) == (3, 2)


def test_rules_beside_advice_apply_and_advice_makes_no_pool(ruled: dict[str, App]) -> None:
    app = ruled[BESIDE]
    assert app.exit_code == 0, app.errors[-3000:]
    assert REFUSED not in app.errors
    assert pools_in_records(app, "many") == {"iqcar-etl"}
    assert set(pools_of(app)) == {"default", "iqcar-etl", "iqcar-report"}


def test_a_file_of_advice_alone_leaves_the_scheduler_as_it_is(ruled: dict[str, App]) -> None:
    app = ruled[ADVICE]
    assert app.exit_code == 0, app.errors[-3000:]
    assert REFUSED not in app.errors
    assert scheduler_mode(app) == "FIFO"
    assert pools_in_records(app, "many") == {None}
