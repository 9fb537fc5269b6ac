"""``iqcar whatif``: what it prints and writes, and what it refuses."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from rich.console import Console

import iqcar as package
from iqcar.enums import Request
from iqcar.errors import UsageError
from iqcar.model.waits.columns import MISSING, evidence_column
from iqcar.show.json.whatif import whatif_schema, whatif_to_json
from iqcar.show.pictures.question_bars import waits_before_after
from iqcar.show.terminal.whatif import print_what_if
from tests.support.command import iqcar
from tests.support.contended_log import contended_log


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`etl` holds both slots for 10 s; `report` asks after one, and runs a second."""
    return contended_log().write(tmp_path_factory.mktemp("logs") / "app-1")


@pytest.fixture(scope="module")
def diagnosis(log: Path) -> package.Diagnosis:
    return package.diagnose(package.read(log), expected=False)


def test_without_the_holder_of_the_slots_the_other_starts_at_once(log: Path) -> None:
    done = iqcar("whatif", log, "--remove", "etl", "--json", "-")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    jsonschema.Draft202012Validator(json.loads(whatif_schema())).validate(result)
    (report,) = result["queries"]
    assert report["name"] == "report"
    assert report["recorded_ms"] == 10_000
    assert report["predicted_ms"] == pytest.approx(1000, rel=0.05)
    assert report["low_ms"] < 1000 < report["high_ms"]
    before, after = report["waits"]["slots"]
    assert before == pytest.approx(9000, rel=0.05)
    assert after == pytest.approx(0, abs=50)
    assert result["do"] == {"remove": ["etl"]}
    assert result["self_check"]["worst"] < 0.01


def test_two_more_slots_share_the_processors_that_are_assumed(
    log: Path, diagnosis: package.Diagnosis
) -> None:
    """Nothing tells of more than two processors: four tasks on them take twice as long, or not."""
    done = iqcar("whatif", log, "--slots", "+2")
    assert done.returncode == 0, done.stderr
    assert "self-check: the replay of the run as it was is off by 0.0 %" in done.stdout
    lines = {line.split()[0]: line for line in done.stdout.splitlines() if line.strip()}
    assert "10.0 s" in lines["report"]
    assert "-80 %" in lines["report"]
    assert "slots 9.0 s → 0 ms" in lines["report"]
    assert "capacity is not known: assumed as many as tasks that ran at once" in " ".join(
        done.stdout.split()
    )
    queries = diagnosis.what_if(slots="+2", host_cores=4).queries
    times = dict(zip(queries["name"], queries["predicted_ms"], strict=True))
    assert times["report"] == pytest.approx(1000, rel=0.05)
    assert times["etl"] == pytest.approx(10_000, rel=0.05)


def test_a_cap_of_one_leaves_a_slot_to_the_other_and_doubles_the_holder(
    diagnosis: package.Diagnosis,
) -> None:
    queries = diagnosis.what_if(cap={"etl": 1}).queries
    times = dict(zip(queries["name"], queries["predicted_ms"], strict=True))
    assert times["etl"] == pytest.approx(20_000, rel=0.05)
    # Its two tasks of a second run one after the other.
    assert times["report"] == pytest.approx(2000, rel=0.05)


def test_a_later_start_of_the_holder_lets_the_other_pass(diagnosis: package.Diagnosis) -> None:
    queries = diagnosis.what_if(start={"etl": "+5s"}).queries
    times = dict(zip(queries["name"], queries["predicted_ms"], strict=True))
    assert times["report"] == pytest.approx(1000, rel=0.05)
    assert times["etl"] == pytest.approx(10_000, rel=0.05)


def test_one_application_and_a_pool_that_there_is_are_asked_for(log: Path) -> None:
    done = iqcar(
        "whatif", log, "--slots", "contended=+2", "--mode", "app-1=fair", "--pool-weight",
        "default=3", "--pool-min-share", "default=2", "--host-cores", "4", "--json", "-",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    jsonschema.Draft202012Validator(json.loads(whatif_schema())).validate(result)
    assert result["do"] == {
        "slots_of": {"contended": 2}, "mode_of": {"app-1": "FAIR"}, "host_cores": 4.0,
        "pool_weight": {"default": 3}, "pool_min_share": {"default": 2},
    }  # fmt: skip
    times = {row["name"]: row["predicted_ms"] for row in result["queries"]}
    assert times["report"] == pytest.approx(1000, rel=0.05)
    said = " ".join(result["assumptions"])
    assert "pools that the log does not declare have Spark's defaults" in said
    assert "other applications keep theirs" in said


def test_slots_of_one_application_are_refused_in_one_line(log: Path) -> None:
    done = iqcar("whatif", log, "--slots", "contendad=+8")
    assert done.returncode == 2
    assert done.stderr.strip().splitlines() == [
        "iqcar: --slots: no application is called 'contendad'; did you mean contended"
    ]


def test_plan_and_blame_are_printed_and_written(log: Path, tmp_path: Path) -> None:
    done = iqcar(
        "whatif", log, "--plan", "slots=2..4", "--price", "0.4/h", "--blame", "report",
        "--json", tmp_path / "answer.json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "as recorded" in done.stdout
    result = json.loads((tmp_path / "answer.json").read_text())
    jsonschema.Draft202012Validator(json.loads(whatif_schema())).validate(result)
    assert [row["value"] for row in result["plan"]["values"]] == [2, 3, 4]
    (source,) = result["removal_blame"]["sources"]
    assert source["name"] == "etl"
    assert source["shapley_ms"] == pytest.approx(9000, rel=0.05)
    assert source["attributed_ms"] == pytest.approx(9000, rel=0.05)
    assert not source["disagrees"]


def test_queries_of_one_name_are_told_apart_by_their_ids(diagnosis: package.Diagnosis) -> None:
    found = diagnosis.what_if(slots="+1")
    ids = [each.rpartition("/")[2] for each in found.queries["query_id"]]
    alike = replace(found, queries=found.queries.assign(name="same"))
    for answer, shown in ((found, False), (alike, True)):
        printed = io.StringIO()
        print_what_if(answer, 10, Console(file=printed, width=200))
        assert [f"{each} same" in printed.getvalue() for each in ids] == [shown] * len(ids)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"remove": "nobody"}, "--remove: no query is called 'nobody'"),
        ({"remove": ["etl", "report"]}, "--remove: nothing would be left to run"),
        ({"remove": "etl", "cap": {"etl": 2}}, "'etl' is removed and changed"),
        ({"cap": ["etl"]}, "--cap: names no query and value"),
        ({"cap": ["etl=0"]}, "--cap etl: is no number from 1"),
        ({"start": ["etl=soon"]}, "--start etl: is no time"),
        ({"slots": "0"}, "--slots: is no number from 1"),
        ({"slots": "-5"}, "--slots: leaves 0 slots of 2"),
        ({"slots": "+2", "executors": "4"}, "both set the number of slots"),
        ({"executors": "many"}, "--executors: is no number"),
        ({"hosts": "-1"}, "--hosts: the run had 1 hosts"),
        ({"host_loss": "mars"}, "--host-loss: no host with slots is called 'mars'"),
        ({"host_loss": "host-a"}, "--host-loss: host-a held all slots"),
        ({"disk": "-2x"}, "--disk: is no factor"),
        ({"disk": float("nan")}, "--disk: is no factor"),
        ({"cpu": "2x", "host_cores": "8"}, "both set the processors"),
        ({"mode": "FIFO", "pool": {"etl": 2}}, "FIFO has no pools"),
        ({"mode": "LIFO"}, "--mode: is no scheduler mode"),
        ({"scale": ["etl=1e9x"]}, "--scale etl: is no factor"),
    ],
)
def test_what_cannot_be_asked_is_said(diagnosis: package.Diagnosis, asked: dict, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        diagnosis.what_if(**asked)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "nothing to change"),
        (["--slots", "+2", "--plan", "slots=2..4"], "a plan is asked alone"),
        (["--price", "0.4", "--remove", "etl"], "--price: is the price in a plan"),
        (["--blame", "nobody"], "--blame: no query is called"),
    ],
)
def test_the_command_says_it_in_one_line(log: Path, words: list[str], said: str) -> None:
    done = iqcar("whatif", log, *words)
    assert done.returncode == 2, done.stdout
    (line,) = done.stderr.strip().splitlines()
    assert said in line


def test_a_wait_that_nothing_recorded_is_unknown_and_not_zero(diagnosis: package.Diagnosis) -> None:
    """The log has no volumes read or fetched, so it tells no wait for them."""
    waits = diagnosis.waits
    queries = diagnosis.what_if(remove="etl").queries
    for resource, requests in (
        ("disk", (Request.IO_READ, Request.IO_WRITE)),
        ("network", (Request.SHUFFLE_FETCH,)),
    ):
        known = any((waits[evidence_column(one)] != MISSING).any() for one in requests)
        for side in ("before", "after"):
            assert queries[f"{resource}_wait_{side}_ms"].notna().all() == known
    missing = waits.assign(**{evidence_column(Request.SHUFFLE_FETCH): np.int8(MISSING)})
    blind = replace(diagnosis, waits=missing)
    told = blind.what_if(remove="etl")
    assert told.queries["network_wait_before_ms"].isna().all()
    assert "network" not in str(waits_before_after(told))
    assert json.loads(whatif_to_json(told))["queries"][0]["waits"]["network"] == [None, None]
