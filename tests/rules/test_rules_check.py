"""Rules from one run, applied in the next, checked against what was predicted."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace as changed
from pathlib import Path

import jsonschema
import msgspec
import pytest
from typer.testing import CliRunner

import iqcar
from iqcar.apps.cli.main import app
from iqcar.comparison.check_rules import check_rules
from iqcar.replay.loop.run import replay
from iqcar.rules.compile_pools import RulesFile, compile_rules, dump_rules, load_rules_file
from iqcar.rules.recorded_setup import recorded_scheduler
from iqcar.rules.rule import PoolPlan, RuleType
from iqcar.show.json.analyze import check_schema
from iqcar.tables import SAMPLES, Tables
from tests.support import replayed_log
from tests.support.naive_replay import ExecutorPlan, JobPlan, Problem, QueryPlan, StagePlan
from tests.support.planned_pool import planned_pool
from tests.support.replayed_log import log_of, write_log

NAMES = ("etl", "report", "nightly")


def workload() -> Problem:
    """`etl` fills four slots with short tasks; `report` comes a little later; `nightly` last."""

    def job(tasks: int, task_ms: float, gap: float = 10.0) -> JobPlan:
        return JobPlan(gap, (StagePlan(((task_ms,),) * tasks),), 5.0)

    etl = QueryPlan(100.0, (job(40, 1000.0), job(20, 1000.0)), tail=3.0)
    report = QueryPlan(600.0, (job(4, 500.0), job(2, 300.0)), tail=2.0)
    nightly = QueryPlan(60_000.0, (job(4, 1000.0),))
    return Problem((etl, report, nightly), (ExecutorPlan(1.0, 4),))


def with_plan(problem: Problem, plan: PoolPlan) -> Problem:
    """The same queries under a plan, as Spark runs them with its fairscheduler.xml."""
    pools = [planned_pool(plan, f"name:{name}") for name in NAMES]
    return changed(
        problem,
        mode="FAIR",
        pools=plan.pools,
        queries=tuple(
            changed(query, pool=pool.name if pool else query.pool)
            for query, pool in zip(problem.queries, pools, strict=True)
        ),
    )


@pytest.fixture
def before(tmp_path: Path) -> Path:
    return write_log(tmp_path / "before", workload(), names=NAMES)


@pytest.fixture
def rules(before: Path, tmp_path: Path) -> RulesFile:
    """The rules that an analysis of the first run proposes, as a file holds them."""
    diagnosis = iqcar.diagnose(iqcar.read(before))
    recorded = recorded_scheduler(diagnosis.tables, diagnosis.rules)
    plan = compile_rules(diagnosis.rules, recorded.slots, recorded.running, recorded.pools)
    path = tmp_path / "rules.json"
    path.write_bytes(dump_rules(diagnosis.rules, plan, recorded))
    return load_rules_file(path)


@pytest.fixture
def after(rules: RulesFile, tmp_path: Path) -> Path:
    applied = with_plan(workload(), rules.plan)
    return write_log(tmp_path / "after", workload(), shares=applied, names=NAMES)


def check(tmp_path: Path, before: Path, after: Path, *more: object):
    """Run the command; its text, and its JSON checked against the schema."""
    out = tmp_path / "check.json"
    arguments = ["rules", "check", tmp_path / "rules.json", before, after, *more]
    done = CliRunner().invoke(app, [*map(str, arguments), "--json", str(out), "--force"])
    assert done.exit_code == 0, done.output
    result = json.loads(out.read_text())
    jsonschema.validate(result, json.loads(check_schema()))
    return " ".join(done.output.split()), result


def test_the_log_of_the_plain_scheduler_replays_exactly(before: Path) -> None:
    tables = iqcar.read(before)
    replayed = replay(tables)
    assert replayed.end_ms.tolist() == tables.queries["end_ms"].tolist()


def test_a_run_on_hosts_of_other_names_is_checked_alike(
    tmp_path: Path, before: Path, rules: RulesFile, after: Path
) -> None:
    expected = check(tmp_path, before, after)[1]
    moved = tmp_path / "moved"
    moved.write_text(re.sub(r'"Host": ?"([^"]+)"', r'"Host":"new-\1"', after.read_text()))
    _, result = check(tmp_path, before, moved)
    assert [one["verdict"] for one in result["rules"]] == [
        one["verdict"] for one in expected["rules"]
    ]


def test_a_run_with_the_rules_is_as_it_was_predicted(
    tmp_path: Path, before: Path, rules: RulesFile, after: Path
) -> None:
    text, result = check(tmp_path, before, after)
    report = next(query for query in result["queries"] if query["name"] == "report")
    assert report["change_percent"] < -50
    # Times in a log are whole ms, and nothing but the shares differs.
    for query in result["queries"]:
        assert query["off_percent"] == pytest.approx(0, abs=0.2)
    assert result["total"]["off_percent"] == pytest.approx(0, abs=0.2)
    by_id = {rule["id"]: rule for rule in result["rules"]}
    assert by_id.keys() == {rule.id for rule in rules.rules}
    victim = next(r for r in result["rules"] if r["query_name"] == "report")
    assert victim["applied"] == "yes"
    assert victim["verdict"] == "helped"
    assert victim["sentence"].startswith(
        f"{victim['id']} was applied ({victim['pool']}); its query"
    )
    # AGG and DYNP name the same source: one of them makes the pool.
    assert sorted(r["applied"] for r in result["rules"]) == ["no-pool", "yes", "yes"]
    assert f"{victim['sentence']}." in text
    assert "all together" in text


def test_a_run_without_the_rules_says_that_they_were_not_applied(
    tmp_path: Path, before: Path, rules: RulesFile
) -> None:
    text, result = check(tmp_path, before, before)
    assert {rule["applied"] for rule in result["rules"]} == {"no", "no-pool"}
    assert {rule["verdict"] for rule in result["rules"]} == {"no-change"}
    assert {query["change_percent"] for query in result["queries"]} == {0}
    report = next(query for query in result["queries"] if query["name"] == "report")
    assert report["off_percent"] == report["predicted_percent"] < -50
    assert "was not applied: its query ran in default" in text


def test_queries_without_a_partner_are_listed(
    tmp_path: Path, before: Path, rules: RulesFile
) -> None:
    fewer = workload()
    fewer = changed(fewer, queries=fewer.queries[:2])
    other = write_log(tmp_path / "other", fewer, names=("etl", "adhoc"))
    text, result = check(tmp_path, before, other)
    assert result["only_before"] == ["nightly", "report"]
    assert result["only_after"] == ["adhoc"]
    assert "Only before: nightly, report." in text
    victim = next(r for r in result["rules"] if r["query_name"] == "report")
    assert (victim["applied"], victim["verdict"]) == ("not-run", "unknown")
    assert victim["change_percent"] is None


def test_several_logs_of_each_side_count_as_one_run(
    tmp_path: Path, before: Path, rules: RulesFile, after: Path
) -> None:
    again = write_log(tmp_path / "again", workload(), names=NAMES, app_id="app-2")
    _, result = check(tmp_path, before, after, "--before", again)
    assert {query["runs_before"] for query in result["queries"]} == {2}
    assert {query["runs_after"] for query in result["queries"]} == {1}


def test_runs_that_have_nothing_in_common_cannot_be_compared(
    tmp_path: Path, before: Path, rules: RulesFile
) -> None:
    stranger = write_log(tmp_path / "stranger", workload(), names=("x", "y", "z"))
    text, result = check(tmp_path, before, stranger)
    assert result["total"] is None and result["queries"] == []
    assert "no query ended in both runs" in text


def test_a_log_that_is_missing_or_rules_that_are_none_end_in_one_line(
    tmp_path: Path, before: Path, rules: RulesFile
) -> None:
    from iqcar.errors import IqcarError

    for arguments in (
        ["rules.json", "before", "nowhere"],
        ["before", "before", "before"],
    ):
        paths = [str(tmp_path / name) for name in arguments]
        done = CliRunner().invoke(app, ["rules", "check", *paths])
        assert isinstance(done.exception, IqcarError)


def test_the_log_says_which_pool_really_ran(rules: RulesFile, after: Path) -> None:
    """FIFO ignores pools: a pool that was asked for under FIFO is a rule that was not applied."""
    tables = iqcar.read(after)
    fifo = tables.with_(applications=tables.applications.assign(scheduler_mode="FIFO"))
    checked = check_rules(rules, tables, fifo)
    assert {rule.applied for rule in checked.rules} == {"no", "no-pool"}


def test_log_and_tables_of_the_plain_scheduler_agree() -> None:
    log = log_of(workload(), names=NAMES)
    assert sum(b"SparkListenerTaskEnd" in line for line in log.lines) == 40 + 20 + 4 + 2 + 4


def with_outside_load(tables: Tables, share: float) -> Tables:
    """The tables of a run on two processors that other processes used to this share."""
    columns = {name: [math.nan] for name in SAMPLES.column_names()} | {
        "app": [0],
        "host": [0],
        "executor": [0],
        "dropped": [0],
        "time_ms": [2000.0],
        "duration_ms": [1000.0],
        "cores": [2.0],
        "cpu_user": [100.0 * share + 20.0],
        "cpu_system": [10.0],
        "jvm_cpu_ms": [500.0],
        "python_cpu_ms": [100.0],
    }
    samples = SAMPLES.frame(columns)
    return tables.with_(samples=samples)


@pytest.mark.slow
def test_no_verdict_is_given_where_other_processes_loaded_the_hosts_differently(
    before: Path, rules: RulesFile, after: Path
) -> None:
    first, second = (with_outside_load(iqcar.read(log), 0.1) for log in (before, after))
    alike = check_rules(rules, first, second)
    assert "helped" in {rule.verdict for rule in alike.rules}
    assert not any("processes other" in doubt for doubt in alike.doubts)
    disturbed = check_rules(rules, first, with_outside_load(second, 0.4))
    assert {rule.verdict for rule in disturbed.rules} == {"disturbed"}
    assert [doubt for doubt in disturbed.doubts if "10 % of the hosts' processors" in doubt]
    compared = iqcar.compare(first, with_outside_load(second, 0.4))
    assert set(compared.doubts) <= set(disturbed.doubts)
    assert [doubt for doubt in compared.doubts if "no effect can be told" in doubt]
    acting = [rule for rule in disturbed.rules if rule.applied == "yes"]
    assert acting and all("no verdict" in rule.sentence for rule in acting)


def test_queries_without_a_rule_that_moved_too_are_pointed_out(
    tmp_path: Path, before: Path, rules: RulesFile, after: Path
) -> None:
    text, result = check(tmp_path, before, after)
    assert result["controls"]["queries"] == 1
    assert abs(result["controls"]["off_percent"]) < 1
    assert "no rule is about" not in text
    slower = workload()
    nightly = changed(slower.queries[2], jobs=(JobPlan(10.0, (StagePlan(((1500.0,),) * 4),), 5.0),))
    slower = changed(slower, queries=(*slower.queries[:2], nightly))
    log = write_log(tmp_path / "slower", slower, shares=with_plan(slower, rules.plan), names=NAMES)
    text, result = check(tmp_path, before, log)
    assert result["controls"]["change_percent"] > 40
    assert "one query that no rule is about took +" in text


def test_what_changed_is_what_the_comparison_says(
    before: Path, rules: RulesFile, after: Path
) -> None:
    first, second = iqcar.read(before), iqcar.read(after)
    checked = check_rules(rules, first, second)
    compared = iqcar.compare(first, second)
    assert len(checked.queries) == len(NAMES)
    for query in checked.queries:
        effect = compared.effects.iloc[compared.find(query.name)]
        assert (query.before_ms, query.after_ms) == (effect["before_ms"], effect["after_ms"])
        assert query.told == ("changed" if "time" in effect["evidence"] else effect["verdict"])


def test_an_effect_that_one_run_cannot_tell_is_not_claimed(
    tmp_path: Path, before: Path, rules: RulesFile
) -> None:
    slower = workload()
    report = changed(slower.queries[1], tail=1500.0)
    slower = changed(slower, queries=(slower.queries[0], report, slower.queries[2]))
    options: list[object] = []
    for day in range(3):
        for option, work in (("before", workload()), ("after", slower)):
            app = f"{option}-{day}"
            start = replayed_log.START + 86_400_000 * (day + 1)
            log = write_log(tmp_path / app, work, names=NAMES, app_id=app, start=start)
            options += [f"--{option}", log]
    once, often = options[1::2][:2], [*options[1::2][:2], *options[4:]]
    for paths, told in ((once, "cannot_tell"), (often, "changed")):
        _, result = check(tmp_path, *paths)
        victim = next(r for r in result["rules"] if r["query_name"] == "report")
        assert (victim["verdict"], victim["told"]) == ("slower", told)
        assert ("too few runs can tell" in victim["sentence"]) == (told == "cannot_tell")


def test_a_query_named_after_its_day_is_checked_the_next_day(
    tmp_path: Path, rules: RulesFile, before: Path
) -> None:
    names = ("etl", "report 2026-10-01", "nightly")
    first = iqcar.read(write_log(tmp_path / "monday", workload(), names=names))
    again = ("etl", "report 2026-10-02", "nightly")
    second = iqcar.read(write_log(tmp_path / "tuesday", workload(), names=again))
    checked = check_rules(rules, first, second)
    assert [query.name for query in checked.queries if "report" in query.name] == [names[1]]
    assert checked.only_before == checked.only_after == ()


def test_a_cap_beside_a_weight_acts_through_the_same_pool(
    tmp_path: Path, before: Path, rules: RulesFile
) -> None:
    etl = next(rule for rule in rules.rules if rule.id == "AGG-1")
    cap = msgspec.structs.replace(etl, id="CAP-1", rule_type=RuleType.CAP, rule_value=0.5)
    both = (etl, cap)
    plan = compile_rules(both, 4, 2, rules.recorded.pools)
    log = write_log(
        tmp_path / "capped", workload(), shares=with_plan(workload(), plan), names=NAMES
    )
    file = RulesFile(both, plan, rules.recorded)
    checked = check_rules(file, iqcar.read(before), iqcar.read(log))
    assert [(rule.id, rule.pool, rule.applied) for rule in checked.rules] == [
        ("AGG-1", "iqcar-etl", "yes"),
        ("CAP-1", "iqcar-etl", "yes"),
    ]
