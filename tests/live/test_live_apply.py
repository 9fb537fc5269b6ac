"""The measured effect of a rule that acts, against queries without a rule."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from typer.testing import CliRunner

from iqcar.apps.cli.main import app
from iqcar.errors import IqcarError
from iqcar.live.apply_rules import EndedRuns
from iqcar.rules.compile_pools import load_rules_file
from iqcar.show.json.live import live_schema
from iqcar.tables import Tables
from tests.rules.test_rules_check import NAMES, workload
from tests.support.live_rules import raised, rule
from tests.support.replayed_log import write_log
from tests.support.tiny_tables import tiny_tables

ETL = rule("etl")


def tables(report_ms: float, other_ms: float, start: float, runs: int = 4) -> Tables:
    """Runs of a victim and of a query that no rule is about, one a second."""
    return tiny_tables(
        queries=[
            {
                "query_id": f"app-1/{name}-{start}-{number}",
                "name": name,
                "fingerprint": f"name:{name}",
                "start_ms": start + 1000.0 * number,
                "end_ms": start + 1000.0 * number + ms,
                "ended": True,
            }
            for name, ms in (("report", report_ms), ("other", other_ms))
            for number in range(runs)
        ]
    )


def measured(after: Tables, others=()):
    runs = EndedRuns()
    before = tables(900.0, 300.0, 0.0)
    for _ in range(2):  # windows overlap: a run counts once
        runs.add(before, 5000.0)
    runs.add(after, 15_000.0)
    return runs.measure(ETL, others, 0.0, 5000.0)


def test_victims_that_got_faster_alone_were_helped() -> None:
    found = measured(tables(300.0, 300.0, 6000.0))
    assert (found.verdict, found.runs, found.harmed) == ("helped", (4, 4), False)
    assert (round(found.change_percent), found.controls_percent) == (-67, 0.0)
    assert found.sentence == "its victims took 67 % less time"


def test_no_verdict_where_queries_without_a_rule_moved_as_much() -> None:
    found = measured(tables(300.0, 150.0, 6000.0))
    assert found.verdict == "disturbed" and not found.harmed
    assert "queries that no rule is about -50 %" in found.sentence


def test_queries_of_other_rules_are_no_controls() -> None:
    found = measured(tables(300.0, 150.0, 6000.0), [raised("other")])
    assert (found.verdict, found.controls_percent) == ("helped", None)


def test_victims_that_got_slower_were_harmed() -> None:
    assert measured(tables(990.0, 300.0, 6000.0)).harmed
    assert not measured(tables(910.0, 300.0, 6000.0)).harmed


def test_two_runs_measure_nothing() -> None:
    assert measured(tables(300.0, 300.0, 6000.0, runs=2)) is None


WHOLE = ("--window", "1h", "--once", "--wins", "1", "--of-windows", "1")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return write_log(tmp_path / "log", workload(), names=NAMES)


def live(log: Path, *arguments: object):
    return CliRunner().invoke(app, ["live", str(log), *map(str, arguments)])


def test_rules_that_won_are_written_and_at_the_end_restored(log: Path, tmp_path: Path) -> None:
    rules = tmp_path / "rules.json"
    done = live(log, *WHOLE, "--apply", rules, "--json")
    assert done.exit_code == 0, done.output
    (line,) = done.stdout.splitlines()
    shown = json.loads(line)
    jsonschema.validate(shown, json.loads(live_schema()))
    (decision,) = shown["loop"]["decisions"]
    assert (decision["event"], decision["rule"]["query_name"]) == ("write", "etl")
    assert [one["query_name"] for one in shown["loop"]["rules"]] == ["etl"]
    assert load_rules_file(rules).rules == ()
    journal = Path(f"{rules}.journal.jsonl").read_text().splitlines()
    assert [json.loads(one)["event"] for one in journal] == ["start", "write", "stop"]
    assert "it won in 1 of the last 1 windows" in done.stderr
    assert "has no rules, as before again" in done.stderr


def test_rules_can_be_kept_and_then_are_those_of_before(log: Path, tmp_path: Path) -> None:
    rules = tmp_path / "rules.json"
    live(log, *WHOLE, "--apply", rules, "--keep-rules")
    file = load_rules_file(rules)
    assert [one.query_name for one in file.rules] == ["etl"]
    assert {one.pool for one in file.plan.assignments} == {"iqcar-etl"}
    done = live(log, *WHOLE, "--apply", rules, "--json")
    decisions = json.loads(done.stdout)["loop"]["decisions"]
    assert [one["rule"]["query_name"] for one in decisions] == ["report"]


def test_a_dry_run_says_what_it_would_write(log: Path, tmp_path: Path) -> None:
    done = live(log, *WHOLE, "--apply", tmp_path / "rules.json", "--dry-run")
    assert "iqcar: write" in done.stderr and "nothing was written" in done.stderr
    assert [one.name for one in tmp_path.iterdir()] == ["log"]


def test_the_limits_are_those_of_the_command_line(log: Path, tmp_path: Path) -> None:
    done = live(log, *WHOLE, "--apply", tmp_path / "rules.json", "--max-rules", "0")
    assert "iqcar: refuse" in done.stderr
    assert "0 rules act already, and no more may" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dry-run"], "name the file with --apply"),
        (["--apply", "{rules}", "--wins", "9"], "no rule wins in 9 of 5 windows"),
        (["--apply", "{log}"], "is not"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(
    log: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    names = {"log": str(log), "rules": str(tmp_path / "rules.json")}
    done = live(log, "--once", *(one.format(**names) for one in arguments))
    assert isinstance(done.exception, IqcarError)
    assert message in str(done.exception)


def test_without_apply_nothing_is_predicted_or_written(log: Path) -> None:
    (line,) = live(log, "--window", "1h", "--once", "--json").stdout.splitlines()
    assert json.loads(line)["loop"] is None
