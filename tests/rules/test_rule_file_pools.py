"""Pools in a rules file: read back as written, and refused where they are not what Spark takes."""

from __future__ import annotations

import json

import jsonschema
import pytest

from iqcar.errors import IqcarError
from iqcar.rules.compile_pools import (
    MAX_FILE_BYTES,
    compile_rules,
    dump_rules,
    load_rules_file,
    parse_rules_file,
)
from iqcar.rules.recorded_setup import Recorded, recorded_scheduler
from iqcar.rules.rule import MAX_ITEMS, Pool
from iqcar.rules.vocabulary import rule_schema
from tests.rules.test_pool_plan import agg, victim
from tests.support.tiny_tables import tiny_tables

VALIDATOR = jsonschema.Draft202012Validator(json.loads(rule_schema()))
RULES = [agg(1 / 3), victim(2.0)]


def a_file() -> dict:
    recorded = Recorded(8, 3, (Pool("gold", 2),))
    plan = compile_rules(RULES, recorded.slots, recorded.running, recorded.pools)
    return json.loads(dump_rules(RULES, plan, recorded))


def test_a_file_without_pools_is_readable() -> None:
    file = parse_rules_file(dump_rules(RULES))
    assert (file.rules, file.plan, file.recorded) == (tuple(RULES), None, Recorded())


def test_what_may_be_left_out_is_as_spark_has_it() -> None:
    file = a_file()
    file["pools"][0] = {"name": file["pools"][0]["name"]}
    VALIDATOR.validate(file)
    assert parse_rules_file(json.dumps(file)).plan.pools[0] == Pool("iqcar-etl", 1, 0, "FIFO")


def test_an_assignment_matches_by_any_of_three_fields() -> None:
    file = a_file()
    for key in ("fingerprint", "description", "job_group"):
        file["assignments"] = [{"pool": "iqcar-etl", key: "x"}]
        VALIDATOR.validate(file)
        (assignment,) = parse_rules_file(json.dumps(file)).plan.assignments
        assert getattr(assignment, key) == "x"


SCHEMA_TOO = {
    "no weight": (lambda f: f["pools"][0].update(weight=0), r"`\$\.pools\[0\]\.weight`"),
    "half a weight": (lambda f: f["pools"][0].update(weight=1.5), r"pools.*weight"),
    "huge weight": (lambda f: f["pools"][0].update(weight=2**31), r"pools.*weight"),
    "negative minShare": (lambda f: f["pools"][0].update(min_share=-1), r"min_share"),
    "text for a number": (lambda f: f["pools"][0].update(weight="3"), r"pools.*weight"),
    "a mode of no scheduler": (lambda f: f["pools"][0].update(mode="LIFO"), r"LIFO"),
    "no name": (lambda f: f["pools"][0].pop("name"), r"`name`.*pools"),
    "empty name": (lambda f: f["pools"][0].update(name=""), r"pools.*name"),
    "long name": (lambda f: f["pools"][0].update(name="x" * 257), r"pools.*name"),
    "unknown field": (lambda f: f["pools"][0].update(quota=3), r"quota.*pools"),
    "no tasks at all": (lambda f: f["pools"][0].update(cap=0), r"cap|pools"),
    "a cap of no slots": (lambda f: f["pools"][0].update(cap_share=0.0), r"cap_share"),
    "a cap above all": (lambda f: f["pools"][0].update(cap_share=1.5), r"cap_share"),
    "strict in words": (lambda f: f["pools"][0].update(strict="yes"), r"strict"),
    "pools no list": (lambda f: f.update(pools={}), r"\$\.pools"),
    "many pools": (lambda f: f.update(pools=[{"name": "p"}] * (MAX_ITEMS + 1)), r"\$\.pools"),
    "many rules": (lambda f: f.update(rules=f["rules"] * MAX_ITEMS), r"\$\.rules"),
    "matches all": (
        lambda f: f["assignments"][0].update(fingerprint=""),
        r"needs a fingerprint.*`\$\.assignments\[0\]`",
    ),
    "notes no text": (lambda f: f.update(notes=[1]), r"\$\.notes"),
    "no slots": (lambda f: f["recorded"].update(slots=0), r"\$\.recorded\.slots"),
    "recorded weight": (lambda f: f["recorded"]["pools"][0].update(weight=-1), r"recorded\.pools"),
}
READER_ONLY = {
    "pool twice": (
        lambda f: f["pools"].append(f["pools"][0]),
        r"repeats the name of an earlier pool - at `\$\.pools\[4\]\.name`",
    ),
    "escape in a name": (lambda f: f["pools"][2].update(name="a\x1bb"), r"\$\.pools\[2\]\.name"),
    "blank name": (lambda f: f["pools"][2].update(name=" "), r"\$\.pools\[2\]\.name"),
    "recorded twice": (
        lambda f: f["recorded"].update(pools=[{"name": "a"}, {"name": "a"}]),
        r"\$\.recorded\.pools\[1\]\.name",
    ),
    "no such pool": (
        lambda f: f["assignments"][1].update(pool="nowhere"),
        r"no pool 'nowhere' - at `\$\.assignments\[1\]`",
    ),
    "assignments without pools": (lambda f: f.pop("pools"), r"\$\.assignments\[0\]"),
    "one query in two pools": (
        lambda f: f["assignments"][1].update(fingerprint=f["assignments"][0]["fingerprint"]),
        r"as an earlier assignment - at `\$\.assignments\[1\]`",
    ),
}


@pytest.mark.parametrize("name", [*SCHEMA_TOO, *READER_ONLY])
def test_pools_that_are_not_as_they_must_be_are_refused_with_their_place(name: str) -> None:
    change, message = {**SCHEMA_TOO, **READER_ONLY}[name]
    file = a_file()
    VALIDATOR.validate(file)
    change(file)
    assert VALIDATOR.is_valid(file) is (name in READER_ONLY)
    with pytest.raises(IqcarError, match=r"my-rules\.json") as error:
        parse_rules_file(json.dumps(file), "my-rules.json")
    line = str(error.value)
    assert "\n" not in line
    assert "\x1b" not in line
    error.match(message)


@pytest.mark.parametrize(
    "content",
    [b"[" * 100_000, b'{"a":' * 100_000, b"1e999", b'{"rules": 1e999}', b"null", b'"\\ud800"'],
    ids=["lists", "objects", "a number", "no rules", "null", "half a character"],
)
def test_rubbish_is_one_line(content: bytes) -> None:
    with pytest.raises(IqcarError, match="is not") as error:
        parse_rules_file(content)
    assert len(str(error.value)) < 300


def test_a_value_that_no_number_holds_is_refused() -> None:
    text = json.dumps(a_file())
    for value in ("1e999", "NaN", "-1"):
        with pytest.raises(IqcarError):
            parse_rules_file(text.replace('"rule-value": 2.0', f'"rule-value": {value}'))


def test_a_file_that_is_too_large_is_not_read_whole(tmp_path) -> None:
    path = tmp_path / "rules.json"
    path.write_bytes(b" " * (MAX_FILE_BYTES + 1))
    with pytest.raises(IqcarError, match="larger than 16 MB"):
        load_rules_file(path)


@pytest.mark.parametrize("path", ["no/such/file", "nul\0byte", "."])
def test_a_path_that_cannot_be_read_is_one_line(path: str) -> None:
    with pytest.raises(IqcarError, match="cannot be read"):
        load_rules_file(path)


TASKS = [{"launch_ms": 0.0, "finish_ms": 10_000.0}, {"launch_ms": 50.0, "finish_ms": 90.0}]
TWO_AT_ONCE = [
    {"query_id": "app-1/sql-1", "start_ms": 0.0, "end_ms": 9.0},
    {"query_id": "app-1/sql-2", "start_ms": 5.0, "end_ms": 12.0},
]


def recorded(rules=None, **rows) -> Recorded:
    tables = tiny_tables(**{"queries": TWO_AT_ONCE, "tasks": TASKS, "executors": [{}], **rows})
    return recorded_scheduler(tables, rules or [agg(0.5)])


def test_slots_and_queries_at_once_are_those_of_the_rules_application() -> None:
    assert recorded() == Recorded(4, 2, ())


def test_rules_of_an_application_that_is_not_there_tell_nothing() -> None:
    assert recorded([agg(0.5, query_id="app-9/sql-1")]) == Recorded()


def test_tasks_that_hold_several_cores_fit_less_often() -> None:
    assert recorded(applications=[{"task_cpus": 3.0}]).slots == 1
    assert recorded(applications=[{"task_cpus": 8.0}]).slots is None


def test_executors_that_come_for_a_peak_or_start_late_do_not_change_the_slots() -> None:
    steady = {"cores": 4.0, "added_ms": 0.0}
    peak = {"cores": 16.0, "added_ms": 2_000.0, "removed_ms": 7_000.0}
    late = {"cores": 4.0, "added_ms": 900.0}
    assert recorded(executors=[steady, peak]).slots == 4
    assert recorded(executors=[steady, late]).slots == 8
    assert recorded(executors=[steady, {**late, "added_ms": 1_100.0}]).slots == 4


def test_slots_are_not_known_where_an_executor_s_cores_are_not() -> None:
    assert recorded(executors=[{}, {"cores": float("nan")}]).slots is None
    assert recorded(executors=[]).slots is None
    assert recorded(tasks=[]).slots is None


POOLS = [
    {"name": "gold", "mode": "FIFO", "weight": 2.0, "min_share": 1.0, "time_ms": 1.0},
    {"name": "gold", "mode": "FAIR", "weight": 3.0, "min_share": 2.0, "time_ms": 2.0},
    {"name": "default", "mode": "odd", "weight": 1.0, "time_ms": 1.0},
    {"name": "bad\x1bname", "weight": 1.0},
    {"name": "huge", "weight": 1e300, "min_share": -5.0},
]


def test_pools_are_those_seen_last_with_whole_numbers_that_spark_takes() -> None:
    found = recorded(applications=[{"scheduler_mode": "FAIR"}], pools=POOLS).pools
    assert found == (
        Pool("default"),
        Pool("gold", 3, 2, "FAIR"),
        Pool("huge", 2**31 - 1, 0),
    )


def test_pools_of_rules_that_were_taken_back_are_not_the_applications_own() -> None:
    known = {"kind": "pool", "outcome": "accepted", "after": "FIFO weight 2 minShare 0"}
    pools = [{"name": "kept", "weight": 5.0, "time_ms": 2.0}]
    pools += [{"name": name, "weight": 2.0, "time_ms": 1.0} for name in ("kept", "gone", "quiet")]
    changes = [{"name": name, "time_ms": 1.0, **known} for name in ("kept", "gone", "quiet")]
    changes += [{"name": name, "time_ms": 2.0, **known, "after": ""} for name in ("gone", "kept")]
    found = recorded(
        applications=[{"scheduler_mode": "FAIR"}], pools=pools, rule_changes=changes
    ).pools
    assert found == (Pool("kept", 5), Pool("quiet", 2))


def test_under_fifo_pools_do_not_count() -> None:
    assert recorded(applications=[{"scheduler_mode": "FIFO"}], pools=POOLS).pools == ()


def test_of_several_applications_the_fewest_slots_and_the_most_queries_count() -> None:
    queries = [*TWO_AT_ONCE, {"query_id": "app-2/sql-1", "app": 1, "end_ms": 5.0, "start_ms": 0.0}]
    tasks = [*TASKS, {"app": 1, "launch_ms": 0.0, "finish_ms": 10.0}]
    rules = [agg(0.5), agg(1.0, 2, query_id="app-2/sql-1")]
    two = {"queries": queries, "tasks": tasks, "applications": [{}, {}]}
    assert recorded(rules, **two, executors=[{}, {"app": 1, "cores": 2.0}]) == Recorded(2, 2)
    assert recorded(rules, **two, executors=[{}]).slots is None
