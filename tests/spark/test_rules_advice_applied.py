"""A real Spark given a file with advice: the other rules apply, advice alone changes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from iqcar.rules import parse_rules_file
from tests.rules.test_rules_advice import JAVA_FILE
from tests.spark.test_rules_applied import (
    REFUSED,
    applied,
    pools_in_records,
    pools_of,
    scheduler_mode,
)
from tests.support.listener_spark import App, run_workloads, spark_params

pytestmark = [pytest.mark.spark, pytest.mark.portable]


def run_with(home: Path, folder: Path, file: dict) -> App:
    """Run a workload of twenty tasks, described by its name, with a rules file."""
    path = folder / "rules.json"
    path.write_text(json.dumps(file), encoding="utf-8")
    parse_rules_file(path.read_bytes())
    app = run_workloads(home, folder, "many:20", conf=applied(str(path)))
    assert app.exit_code == 0, app.errors[-3000:]
    assert REFUSED not in app.errors
    return app


@pytest.mark.parametrize("home", spark_params())
def test_rules_beside_advice_apply_and_advice_makes_no_pool(home: Path, tmp_path: Path) -> None:
    file = json.loads(JAVA_FILE.read_text(encoding="utf-8"))
    assert any(rule["rule-type"] == "ADVICE" for rule in file["rules"])
    for part in (*file["rules"], *file["assignments"]):
        part["fingerprint"] = part["fingerprint"].replace("name:etl", "name:many")
    app = run_with(home, tmp_path, file)
    assert pools_in_records(app, "many") == {"iqcar-etl"}
    assert set(pools_of(app)) == {"default", "iqcar-etl", "iqcar-report"}


@pytest.mark.parametrize("home", spark_params())
def test_a_file_of_advice_alone_leaves_the_scheduler_as_it_is(home: Path, tmp_path: Path) -> None:
    file = json.loads(JAVA_FILE.read_text(encoding="utf-8"))
    advice = [rule for rule in file["rules"] if rule["rule-type"] == "ADVICE"]
    for rule in advice:
        rule["fingerprint"] = "name:many"
    app = run_with(home, tmp_path, {**file, "rules": advice, "pools": [], "assignments": []})
    assert scheduler_mode(app) == "FIFO"
    assert pools_in_records(app, "many") == {None}
