"""Rules that cannot act are refused in a line, and Spark runs as without them."""

from __future__ import annotations

import os

import pytest

from tests.support.listener_spark import LISTENER_ONLY, App, run_applications, spark_params
from tests.support.ruled_apps import (
    FIRST,
    REFUSED,
    applied,
    pool,
    pools_in_records,
    rules_file,
    scheduler_mode,
)

pytestmark = [pytest.mark.long, pytest.mark.spark]
ALLOCATION = "spark.scheduler.allocation.file"
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
    "anybody's": (
        '{"schema_version": "1", "pools": [{"name": "a"}],'
        ' "assignments": [{"pool": "a", "job_group": "many"}]}',
        "change its mode from 666 to 664",
    ),
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
    (folder / "anybody's.json").chmod(0o666)
    bad = {what: applied(str(folder / f"{what}.json")) for what in BAD}
    good = rules_file(folder / "good.json", [pool("first")], [FIRST])
    os.mkfifo(folder / "pools.xml")
    confs = {
        **{
            what: {**bad[what], "spark.iqcar.rules.watchMs": "0"}
            for what in ("weight", "not compiled", "missing", "anybody's")
        },
        "off": {**applied(good), "spark.iqcar.enabled": "false"},
        "listener alone": {**LISTENER_ONLY, "spark.iqcar.rules": good},
        "hanging pools": {**applied(good), ALLOCATION: (folder / "pools.xml").as_uri()},
        **{
            f"strict, {what}": {**bad[what], "spark.iqcar.rules.strict": "true"}
            for what in ("no such pool", "missing")
        },
    }
    plans = {name: (("many:20",), conf) for name, conf in confs.items()}
    apps = run_applications(request.param, folder, plans)
    os.close(os.open(folder / "pools.xml", os.O_WRONLY | os.O_NONBLOCK))  # its reader still hangs
    return apps


@pytest.mark.parametrize("what", ["weight", "not compiled", "missing", "anybody's"])
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


def test_a_file_of_pools_that_does_not_answer_costs_the_rules_and_a_line(
    unruled: dict[str, App],
) -> None:
    app = unruled["hanging pools"]
    assert app.exit_code == 0, app.errors[-3000:]
    assert scheduler_mode(app) == "FIFO"
    assert pools_in_records(app, "many") == {None}
    (line,) = (line for line in app.errors.splitlines() if REFUSED in line)
    assert f"{ALLOCATION}=file:" in line and "no answer within 30 s" in line


def test_the_listener_alone_cannot_choose_fair_and_says_so(unruled: dict[str, App]) -> None:
    app = unruled["listener alone"]
    assert app.exit_code == 0, app.errors[-3000:]
    assert pools_in_records(app, "many") == {None}
    (line,) = (line for line in app.errors.splitlines() if REFUSED in line)
    assert "spark.scheduler.mode: is not FAIR" in line
