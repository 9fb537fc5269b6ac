"""A real Spark given a file with advice: the other rules apply, advice alone changes nothing."""

from __future__ import annotations

import json

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
from tests.support.listener_spark import App, run_applications, spark_params

pytestmark = [pytest.mark.spark, pytest.mark.portable]


ALONE, BESIDE = "alone", "beside others"


@pytest.fixture(scope="module", params=spark_params())
def apps(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, App]:
    """A workload of twenty tasks, described by its name, with files of rules that hold advice."""
    folder = tmp_path_factory.mktemp("advice")
    beside = json.loads(JAVA_FILE.read_text(encoding="utf-8"))
    for part in (*beside["rules"], *beside["assignments"]):
        part["fingerprint"] = part["fingerprint"].replace("name:etl", "name:many")
    advice = [rule for rule in beside["rules"] if rule["rule-type"] == "ADVICE"]
    assert advice
    named = [{**rule, "fingerprint": "name:many"} for rule in advice]
    alone = {**beside, "rules": named, "pools": [], "assignments": []}
    plans = {}
    for name, file in ((BESIDE, beside), (ALONE, alone)):
        path = folder / f"{name}.json"
        path.write_text(json.dumps(file), encoding="utf-8")
        parse_rules_file(path.read_bytes())
        # A file that is watched switches FAIR on, because other rules may come.
        plans[name] = (("many:20",), {**applied(str(path)), "spark.iqcar.rules.watchMs": "0"})
    found = run_applications(request.param, folder, plans)
    for app in found.values():
        assert app.exit_code == 0, app.errors[-3000:]
        assert REFUSED not in app.errors
    return found


def test_rules_beside_advice_apply_and_advice_makes_no_pool(apps: dict[str, App]) -> None:
    assert pools_in_records(apps[BESIDE], "many") == {"iqcar-etl"}
    assert set(pools_of(apps[BESIDE])) == {"default", "iqcar-etl", "iqcar-report"}


def test_a_file_of_advice_alone_leaves_the_scheduler_as_it_is(apps: dict[str, App]) -> None:
    assert scheduler_mode(apps[ALONE]) == "FIFO"
    assert pools_in_records(apps[ALONE], "many") == {None}
