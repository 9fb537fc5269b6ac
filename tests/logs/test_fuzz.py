"""Damaged and absurd logs break no promise of the reader; scripts/fuzz has more of them."""

from __future__ import annotations

import json
import random
from math import isnan
from pathlib import Path

import pytest

import iqcar
from iqcar.show.json.analyze import to_json
from iqcar.tables import MOST_CORES, MOST_CORES_OF_A_LOG, Tables, texts
from iqcar_lab.clusters.event_log import SyntheticLog
from tests.support.command import iqcar as iqcar_command
from tests.support.contended_log import contended_log
from tests.support.fuzz_case import Case, make_case, run_case
from tests.support.fuzz_script import fuzz
from tests.support.log_mutations import ABSURD, SIZES, put_field, put_setting
from tests.support.log_sources import made_sources, recorded_log, sample, source

CASES = 40


@pytest.mark.long
def test_damaged_logs_break_no_promise(tmp_path: Path) -> None:
    fuzz(tmp_path, CASES, 7, "--made")


@pytest.mark.slow
def test_a_case_is_the_same_whenever_it_is_made() -> None:
    for number in range(20):
        assert make_case(number, made_sources()) == make_case(number, made_sources())


def test_a_sample_of_a_log_keeps_its_order_and_every_kind_of_event() -> None:
    whole = source("recorded", recorded_log(contended_log()).lines)
    for seed in range(20):
        rows = [whole.lines.index(line) for line in sample(whole, random.Random(seed))]
        assert rows == sorted(rows)
        assert {whole.kinds[row] for row in rows} == set(whole.kinds)


def test_a_broken_promise_is_a_finding(tmp_path: Path) -> None:
    case = Case({"app-1": b"rubbish\n"}, 1, [], "diagnose")
    assert run_case(case, tmp_path / "one") == []
    harmed = Case({"good": b"rubbish\n"}, 1, [], "diagnose")
    assert [found.kind for found in run_case(harmed, tmp_path / "two")] == ["harm"]


SET = 4_294_967_291
"""A number that is in no log by itself."""


def read(log: SyntheticLog, folder: Path) -> Tables:
    return iqcar.read(log.write(folder / "log"))


def message(tables: Tables) -> str:
    (found,) = texts(tables.inputs, "message")
    return found


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Total Cores", SET),
        ("Total Cores", 2**31 - 1),
        ("Number of Tasks", 2**31 - 1),
        ("Timestamp", 31_556_889_864_403_199),
        ("Submission Time", 2**63),
        ("Peak Execution Memory", 2**62),
        ("Result Size", 2**62),
        ("Memory Bytes Spilled", 2**63 - 1),
    ],
)
def test_an_absurd_number_of_an_event_is_named_and_repeated_nowhere(
    name: str, value: int, tmp_path: Path
) -> None:
    log = contended_log("app-1", 1_700_000_000_000)
    log.lines, touched = put_field(log.lines, name, value)
    assert touched
    tables = read(log, tmp_path)
    column = {
        "Peak Execution Memory": "peak_memory_bytes",
        "Result Size": "result_bytes",
        "Memory Bytes Spilled": "memory_spilled_bytes",
    }.get(name, name)
    assert f"made no sense and counted as unknown ({column})" in message(tables)
    assert str(value) not in json.dumps(json.loads(to_json(iqcar.diagnose(tables))))


@pytest.mark.parametrize("name", ["spark.executor.memory", "spark.executor.cores"])
@pytest.mark.parametrize("value", [str(SET), "9" * 400, "NaN", "-1", "inf", f"{SET}t"])
def test_an_absurd_size_that_is_set_is_named_and_counts_as_not_set(
    name: str, value: str, tmp_path: Path
) -> None:
    log = contended_log()
    value += "m" * (value == str(SET) and name.endswith("memory"))
    log.lines, touched = put_setting(log.lines, name, value)
    assert touched
    tables = read(log, tmp_path)
    if name.endswith("cores") and value.endswith("t"):
        assert isnan(tables.applications["executor_cores"][0])  # that is no number of cores
        return
    assert f"counted as unknown ({name})" in message(tables)
    assert name not in texts(tables.conf, "key")


@pytest.mark.parametrize(
    "value", ["${CORES}", "4", "0.6", "64g", "1099511627776", "2147483647", "Infinity"]
)
def test_what_users_set_is_kept(value: str, tmp_path: Path) -> None:
    names = {
        "${CORES}": "spark.executor.cores",
        "4": "spark.executor.cores",
        "0.6": "spark.memory.fraction",
        "64g": "spark.executor.memory",
        "1099511627776": "spark.memory.offHeap.size",
        "2147483647": "spark.dynamicAllocation.maxExecutors",
        "Infinity": "spark.sql.autoBroadcastJoinThreshold",
    }
    log = contended_log()
    log.lines, _ = put_setting(log.lines, names[value], value)
    tables = read(log, tmp_path)
    assert message(tables) == ""
    assert (
        dict(zip(texts(tables.conf, "key"), texts(tables.conf, "value"), strict=True))[names[value]]
        == value
    )


def test_cores_of_so_many_executors_that_their_sum_is_absurd_are_unknown(tmp_path: Path) -> None:
    log, each = SyntheticLog().app(), MOST_CORES - 1
    for number in range(MOST_CORES_OF_A_LOG // each + 1):
        log.executor(str(number), f"h{number}", each)
    tables = read(log.job(0, [0]).stage(0).task(0).end(), tmp_path)
    assert tables.executors["cores"].isna().all()
    assert "(Total Cores)" in message(tables)


def test_a_log_with_absurd_cores_leaves_the_others_of_its_set_as_they_are(tmp_path: Path) -> None:
    good = contended_log("app-good", 1_700_000_000_000)
    bad = contended_log("app-bad", 1_700_000_100_000)
    bad.lines, _ = put_field(bad.lines, "Total Cores", 2**31 - 1)
    good.write(tmp_path / "alone" / "good")
    good.write(tmp_path / "set" / "good")
    bad.write(tmp_path / "set" / "bad")
    said = [
        iqcar_command("queries", tmp_path / folder, "--json", "-", memory_limit=4 << 30)
        for folder in ("alone", "set")
    ]
    assert [one.returncode for one in said] == [0, 0], said[1].stderr
    one, both = (json.loads(ran.stdout)["queries"] for ran in said)
    assert len(both) == 2 * len(one)
    assert all(query in both for query in one)


@pytest.mark.parametrize("name", SIZES)
def test_the_fuzzer_changes_each_size(name: str) -> None:
    lines = recorded_log(contended_log("app-1", 1_700_000_000_000)).lines
    put = put_setting if name.startswith("spark.") else put_field
    new, touched = put(lines, name, ABSURD[0])  # type: ignore[operator]
    assert touched
    assert str(ABSURD[0]).encode() in b"".join(new)
