"""The rules file of the live loop: whole, valid, and left alone where somebody else edits it."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from iqcar.errors import IqcarError, UsageError
from iqcar.live.apply_rules import RuleApplier
from iqcar.live.rule_loop import EditedElsewhereError, Limits, RuleWriter
from iqcar.rules.compile_pools import compile_rules, dump_rules, load_rules_file
from iqcar.rules.recorded_setup import Recorded
from iqcar.rules.rule import Assignment, Pool, PoolPlan
from iqcar.tables import Tables
from tests.support.live_rules import raised, rule

ETL, REPORT = rule("etl"), raised("report")
RECORDED = Recorded(8, 4, (Pool("mine", 3),))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rules.json"


@pytest.fixture
def before(path: Path) -> bytes:
    """A rules file with one rule, and one assignment by hand."""
    plan = compile_rules([REPORT], 8, 4)
    by_hand = Assignment("byhand", "", job_group="nightly")
    plan = PoolPlan((*plan.pools, Pool("byhand", 7)), (by_hand, *plan.assignments))
    path.write_bytes(dump_rules([REPORT], plan, Recorded(8, 4)))
    return path.read_bytes()


def test_rules_of_the_loop_stand_beside_those_of_before(path: Path, before: bytes) -> None:
    writer = RuleWriter(str(path))
    writer.write([ETL], RECORDED)
    file = load_rules_file(path)
    assert [one.id for one in file.rules] == ["DYNP-1", "AGG-live-1"]
    pools = {assigned.pool for assigned in file.plan.assignments}
    assert pools == {"iqcar-etl", "iqcar-report", "byhand"}
    assert {"mine", "byhand", "default"} <= {pool.name for pool in file.plan.pools}
    writer.write([])
    assert path.read_bytes() == before


def test_a_rule_keeps_its_id_and_pool(path: Path) -> None:
    writer = RuleWriter(str(path))
    writer.write([rule("etl"), rule("nightly")], RECORDED)
    writer.write([rule("nightly")])
    assert [one.id for one in load_rules_file(path).rules] == ["AGG-live-2"]
    writer.write([rule("nightly"), rule("etl", value=0.5)])
    ids = {one.query_name: one.id for one in load_rules_file(path).rules}
    assert ids == {"nightly": "AGG-live-2", "etl": "AGG-live-1"}


def test_at_the_end_the_rules_of_before_are_restored(path: Path, before: bytes) -> None:
    writer = RuleWriter(str(path))
    writer.write([ETL], RECORDED)
    assert writer.stop(restore=True) == f"{path} has the rules of before again"
    assert path.read_bytes() == before
    assert [one.name for one in path.parent.iterdir()] == ["rules.json"]


def test_where_there_was_no_file_one_without_rules_is_left(path: Path) -> None:
    """A file that is removed may leave the last rules acting; one without rules does not."""
    writer = RuleWriter(str(path))
    writer.write([ETL], RECORDED)
    assert writer.stop(restore=True) == f"{path} has no rules, as before again"
    file = load_rules_file(path)
    assert file.rules == () and file.plan == PoolPlan()


def test_rules_can_be_left_at_the_end(path: Path, before: bytes) -> None:
    writer = RuleWriter(str(path))
    writer.write([ETL], RECORDED)
    assert writer.stop(restore=False) == f"{path} keeps the rules that act now"
    assert len(load_rules_file(path).rules) == 2


def test_a_loop_that_wrote_nothing_touches_nothing(path: Path) -> None:
    assert "as it was" in RuleWriter(str(path)).stop(restore=True)
    assert not path.exists()


def test_what_a_killed_loop_left_is_restored_by_the_next(path: Path, before: bytes) -> None:
    RuleWriter(str(path)).write([ETL], RECORDED)
    writer = RuleWriter(str(path))
    assert path.read_bytes() == before
    assert [one.id for one in writer.fixed] == ["DYNP-1"]
    assert "an earlier loop did not end by itself" in writer.said[0]


@pytest.mark.parametrize("edit", ["", "remove"])
def test_a_file_that_somebody_else_edits_is_left_alone(
    path: Path, before: bytes, edit: str
) -> None:
    writer = RuleWriter(str(path))
    writer.write([ETL], RECORDED)
    if edit == "remove":
        path.unlink()
    else:
        path.write_bytes(before + b"\n")
    with pytest.raises(EditedElsewhereError, match="edited or removed by somebody else"):
        writer.write([ETL, REPORT])
    assert writer.stop(restore=True) == f"{path} is left as somebody else edited it"
    assert path.exists() == (edit != "remove")


def test_a_file_that_is_no_rules_file_is_not_replaced(path: Path) -> None:
    path.write_text("{}")
    with pytest.raises(IqcarError, match="is not a rules file"):
        RuleWriter(str(path))
    assert path.read_text() == "{}"


def test_nothing_that_the_reader_refuses_is_written(path: Path, before: bytes) -> None:
    writer = RuleWriter(str(path))
    with pytest.raises(IqcarError, match="share of an AGG rule"):
        writer.write([rule("etl", value=2.0)], RECORDED)
    assert path.read_bytes() == before


def applier(path: Path, **options) -> RuleApplier:
    return RuleApplier(RuleWriter(str(path)), Limits(wins=1, of_windows=1), **options)


def proposed(number: int):
    expected = {
        "outlook": "helps",
        "victims_before_ms": 900.0,
        "victims_after_ms": 100.0,
        "victim_fingerprints": ["name:report"],
    }
    one = rule(f"etl-{number}")
    return [msgspec.structs.replace(one, expected=expected)]


def feed(loop: RuleApplier, number: int):
    end = 10_000.0 * (number + 1)
    return loop.window(Tables.empty(), proposed(number), end - 10_000.0, end, end)


def test_each_decision_is_in_the_journal_with_its_reason(path: Path) -> None:
    journal = path.with_name("journal.jsonl")
    loop = applier(path, journal=str(journal))
    loop.start(0.0)
    assert [change.action.value for change in feed(loop, 0).changes] == ["write"]
    loop.end(30_000.0, "Ctrl-C")
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    assert [line["event"] for line in lines] == ["start", "write", "stop"]
    assert lines[1]["time"] == "1970-01-01T00:00:10.000+00:00"
    assert lines[1]["rule"]["rule-type"] == "AGG"
    assert lines[1]["expected_gain_ms"] == 800
    assert lines[1]["window"] == {"start_ms": 0.0, "end_ms": 10_000.0}
    assert lines[2]["reason"] == f"Ctrl-C: {path} has no rules, as before again"


def test_the_kill_switch_ends_the_loop_and_restores(path: Path, before: bytes) -> None:
    loop = applier(path)
    loop.start(0.0)
    feed(loop, 0)
    assert path.read_bytes() != before
    Path(f"{path}.stop").touch()
    done = feed(loop, 1)
    assert done.stopped and done.changes == () and done.rules == ()
    assert path.read_bytes() == before
    assert feed(loop, 2).changes == ()
    with pytest.raises(UsageError, match="the loop does not act"):
        applier(path).start(0.0)


def test_a_dry_run_decides_and_writes_nothing(path: Path, before: bytes) -> None:
    loop = applier(path, dry_run=True, journal=str(path.with_name("journal.jsonl")))
    loop.start(0.0)
    assert [change.action.value for change in feed(loop, 0).changes] == ["write"]
    assert "nothing was written" in loop.end(1.0, "end").stopped
    assert path.read_bytes() == before
    assert [one.name for one in path.parent.iterdir()] == ["rules.json"]


def test_an_edited_file_stops_the_loop_or_is_taken_over(path: Path, before: bytes) -> None:
    for take_over in (False, True):
        path.write_bytes(before)
        loop = applier(path, take_over=take_over)
        loop.start(0.0)
        feed(loop, 0)
        path.write_bytes(before.replace(b"nightly", b"weekly_"))
        done = feed(loop, 1)
        assert bool(done.stopped) != take_over
        assert [one["event"] for one in done.lines][:1] == ["take-over" if take_over else "stop"]
        if take_over:
            assert len(load_rules_file(path).rules) == 2
            loop.end(1.0, "end")
        assert b"weekly_" in path.read_bytes()
        Path(f"{path}.before").unlink(missing_ok=True)


def test_between_windows_that_count_only_the_kill_switch_is_looked_at(path: Path) -> None:
    loop = applier(path)
    loop.start(0.0)
    assert loop.is_due(0.0, 10_000.0)
    feed(loop, 0)
    assert not loop.is_due(14_000.0, 10_000.0) and loop.is_due(15_000.0, 10_000.0)
    assert loop.look(14_000.0).stopped == ""
    Path(f"{path}.stop").touch()
    assert "is there" in loop.look(14_500.0).stopped
    assert load_rules_file(path).rules == () and not loop.is_due(99_000.0, 10_000.0)
