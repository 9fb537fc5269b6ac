"""The plugin watches its rules file: what changes there acts while the application runs."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

import iqcar
from iqcar.show.json.analyze import to_dict
from tests.support import SUPPORT
from tests.support.listener_spark import JAR, PLUGIN, App, run, run_alone, spark_params
from tests.support.ruled_apps import pool, rule, rules_file

pytestmark = pytest.mark.spark
smoke, portable = pytest.mark.smoke, pytest.mark.portable
"""What acts through Spark's own classes; what is said of a wrong file is ours."""

STEPS = (
    *("default", "placed", "tasks", "weight", "moved", "tasks", "another mode"),
    *("malformed", "removed", "restored", "idle", "no watcher"),
)


class Reloaded(NamedTuple):
    """The application whose rules changed, and its diagnosis."""

    app: App
    diagnosis: iqcar.Diagnosis


@pytest.fixture(scope="module", params=spark_params())
def reloaded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Reloaded:
    """One job of 600 tasks that runs from before the first rule until after the last.

    Its rules are on a file system of Hadoop's; those of the plugin's own tests are local files.
    """
    folder = tmp_path_factory.mktemp("reloaded")
    rules = folder / "rules.json"
    job = [str(SUPPORT / "reload_jobs.py"), str(rules), str(folder / "log")]
    by_hadoop = {
        "spark.iqcar.rules": "viewfs://cluster/rules/rules.json",
        "spark.hadoop.fs.viewfs.mounttable.cluster.link./rules": folder.as_uri(),
    }
    app = run(request.param, folder, job, conf={**PLUGIN, **by_hadoop})
    assert app.exit_code == 0, app.output + app.errors[-3000:]
    return Reloaded(app, iqcar.diagnose(iqcar.read([folder / "log"])))


@smoke
@portable
def test_every_change_acts_on_the_job_that_runs_and_no_slot_is_lost(reloaded: Reloaded) -> None:
    steps = [line.split(" ", 1)[1] for line in reloaded.app.output.splitlines() if "STEP" in line]
    assert tuple(step.rpartition(" ")[0] for step in steps) == STEPS
    assert "SUM 600" in reloaded.app.output


def test_what_is_wrong_with_the_file_leaves_the_rules_and_is_said_once(reloaded: Reloaded) -> None:
    app = reloaded.app
    assert "STILL 7 True" in app.output
    outcomes = [event["outcome"] for event in app.own_events("Rules")]
    assert outcomes == ["missing", *["accepted"] * 4, "refused", "missing", "accepted"]
    said = [line for line in app.errors.splitlines() if "iqcar: the rules stay" in line]
    assert ["refused" in line for line in said] == [True, False]
    assert app.errors.count("iqcar: no rules are applied") == 1


@smoke
@portable
def test_each_change_is_followed_by_the_schedulers_pools(reloaded: Reloaded) -> None:
    states = [
        {pool["name"]: (pool["weight"], pool["mode"]) for pool in event["pools"]}
        for event in reloaded.app.own_events()
    ]
    default = {"default": (1, "FIFO")}
    assert states == [
        default,
        {**default, "one": (1, "FIFO")},
        {**default, "one": (5, "FIFO")},
        {**default, "one": (1, "FIFO"), "two": (2, "FAIR")},
        {**default, "two": (7, "FIFO")},
        default,
    ]


@smoke
@portable
def test_tasks_say_which_pool_they_ran_in(reloaded: Reloaded) -> None:
    records = reloaded.diagnosis.tables.task_records.sort_values("start_ms")
    in_order = list(dict.fromkeys(pool for pool in records["pool"].tolist() if pool))
    assert in_order == ["one", "two", "default"]


@smoke
@portable
def test_the_analyzer_shows_which_rules_acted_when(reloaded: Reloaded) -> None:
    found = to_dict(reloaded.diagnosis)["acting_rules"]
    acted = [
        (one["rule"], one["name"], one["value"].split(" minShare")[0]) for one in found["acted"]
    ]
    assert sorted(acted) == sorted(
        [
            ("AGG-one", "job group hog", "one"),
            ("AGG-one", "one", "FIFO weight 1"),
            ("AGG-one", "one", "FIFO weight 5"),
            ("", "one", "FIFO weight 1"),
            ("AGG-two", "job group hog", "two"),
            ("AGG-two", "two", "FAIR weight 2"),
            ("AGG-two", "two", "FIFO weight 7"),
        ]
    )
    assert all(one["until_ms"] >= one["from_ms"] for one in found["acted"])
    assert len(found["not_accepted"]) == 3


@smoke
@portable
def test_a_log_whose_pools_changed_is_replayed(reloaded: Reloaded) -> None:
    assert reloaded.diagnosis.what_if_model is not None  # raises where nothing can be replayed


@pytest.mark.long
@pytest.mark.parametrize("home", spark_params())
def test_plans_are_hashed_once_a_rule_asks_and_then_that_of_the_query_that_runs_too(
    home: Path, tmp_path: Path
) -> None:
    classes = tmp_path / "classes"
    named = rule("late", description="another")
    rules = rules_file(tmp_path / "rules.json", [pool("late")], [named])
    job = [str(SUPPORT / "late_plan_jobs.py"), rules, str(tmp_path / "log"), str(classes)]
    conf = {**PLUGIN, "spark.iqcar.rules": rules}
    java = ["--driver-java-options", f"-Xlog:class+load:file={classes}"]
    app = run_alone(home, tmp_path, job, conf=conf, options=["--jars", str(JAR), *java])
    assert app.exit_code == 0, app.output + app.errors[-3000:]
    told = [line for line in app.output.splitlines() if line.startswith("HASHED")]
    assert told == ["HASHED False POOLS ['default']", "HASHED True POOLS ['late']"]
