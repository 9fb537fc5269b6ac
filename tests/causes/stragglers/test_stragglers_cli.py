"""``iqcar stragglers``: what it prints and writes, on real logs, and on rubbish."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest

from iqcar.causes.stragglers.features import FEATURE_LIST, SLOW_HOST
from iqcar.causes.stragglers.straggler_result import StragglerSettings, by_cause, by_group
from iqcar.pipeline import stragglers_of
from iqcar.rules.vocabulary import straggler_cause, straggler_causes
from iqcar.show.json.analyze import result_schema, stragglers_to_json
from iqcar_lab.clusters.event_log import SyntheticLog, stage_info, task_metrics
from tests.conftest import REPO
from tests.support.command import iqcar
from tests.support.real_logs import LOGS, diagnosis_of_log
from tests.support.straggler_truth import simulate


def skewed_log(name: str = "etl") -> SyntheticLog:
    """Nine tasks of a second, and one that reads eight times as much and takes six."""
    log = SyntheticLog("app-1").app("skewed", 1000).environment()
    log.executor("1", "host-a", 4, 1000)
    stage = stage_info(0, submission=1000, **{"Number of Tasks": 10})
    properties = {"spark.sql.execution.id": "0", "spark.job.description": name}
    log.sql(0, description=name, time=1000).job(0, [stage], 1000, properties)
    log.stage(stage, properties)
    for task in range(10):
        large = task == 7
        metrics = task_metrics(
            Executor_Run_Time=6000 if large else 1000,
            Executor_CPU_Time=(5000 if large else 800) * 1_000_000,
            Input_Metrics={"Bytes Read": 800_000_000 if large else 100_000_000, "Records Read": 10},
            Shuffle_Read_Metrics={}, Shuffle_Write_Metrics={}, JVM_GC_Time=0,
        )  # fmt: skip
        log.task(
            task, stage=0, metrics=metrics, launch=1000, finish=7100 if large else 2100,
            host="host-a", index=task,
        )  # fmt: skip
    return log.stage_end(stage, 7100).job_end(0, 7100).sql_end(0, 7100).end(7200)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return skewed_log().write(tmp_path / "app-1")


def test_the_skewed_task_is_named_with_evidence_and_advice(log: Path) -> None:
    done = iqcar("stragglers", log)
    assert done.returncode == 0, done.stderr
    assert "1 of 10 tasks took more than 1.5 times their stage's median" in done.stdout
    words = " ".join(done.stdout.split())
    assert "input skew: input 800.0 MB, 8.0 × the mean of its stage's other tasks" in words
    assert "spark.sql.files.maxPartitionBytes" in words
    assert "computation skew" not in words


@pytest.mark.slow
def test_the_json_says_the_same_and_fits_its_schema(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "stragglers.json"
    done = iqcar("stragglers", log, "--json", out, "--settings", "ratio=2")
    assert done.returncode == 0, done.stderr
    assert f"Wrote {out}" in done.stderr
    (found,) = json.loads(out.read_text())["stragglers"]
    fits_schema(found)
    assert (found["count"], found["explained"], found["settings"]["ratio"]) == (1, 1, 2.0)
    (worst,) = found["worst"]
    assert (worst["task"], worst["delay_ms"], worst["query_id"]) == ("7", 5000, "app-1/sql-0")
    (cause,) = worst["causes"]
    assert (cause["cause"], cause["evidence"]) == ("input-skew", "paper")
    assert cause["ratio"] == pytest.approx(8)
    assert [a["kind"] for a in found["advice"]] == ["advice"]
    assert iqcar("stragglers", log, "--json", out).returncode == 2


@pytest.mark.slow
def test_analyze_has_a_section_of_it(log: Path) -> None:
    done = iqcar("analyze", log, "--full")
    assert "Stragglers" in done.stdout
    assert "input skew" in done.stdout
    result = json.loads(iqcar("analyze", log, "--json", "-").stdout)
    jsonschema.validate(result, json.loads(result_schema()))
    assert result["stragglers"]["count"] == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["LOG", "--settings", "ratio=0"], "ratio"),
        (["LOG", "--settings", "nonsense"], "is no setting"),
        (["nowhere"], "nowhere"),
        (["LOG", "--json", "no/such/folder.json"], "folder does not exist"),
    ],
)
def test_wrong_use_is_one_clear_line(log: Path, arguments: list[str], says: str) -> None:
    done = iqcar("stragglers", *[log if a == "LOG" else a for a in arguments])
    assert done.returncode in (1, 2)
    assert done.stdout == ""
    assert done.stderr.startswith("iqcar: ")
    assert done.stderr.count("\n") == 1
    assert says in done.stderr


def test_names_in_logs_cannot_drive_the_terminal(tmp_path: Path) -> None:
    hostile = "q\x1b[31m\x07\u202e[bold]x"
    log = skewed_log(hostile).write(tmp_path / "app-1")
    done = iqcar("stragglers", log)
    assert done.returncode == 0, done.stderr
    assert not {"\x1b", "\x07", "\u202e"} & set(done.stdout)
    assert "[bold]x" in done.stdout


@pytest.mark.long
@pytest.mark.parametrize("name", LOGS)
def test_every_real_log_gives_a_whole_result(name: str) -> None:
    diagnosis = diagnosis_of_log(name)
    found = diagnosis.stragglers
    (as_json,) = json.loads(stragglers_to_json(diagnosis.tables, found))["stragglers"]
    fits_schema(as_json)
    assert as_json["count"] == len(as_json["worst"])
    counted = by_cause(found)
    assert (counted["stragglers"] <= len(found.stragglers)).all()
    unexplained = int(counted.loc[counted["cause"] == "", "stragglers"].sum())
    assert unexplained == as_json["count"] - as_json["explained"]
    for group in ("stage", "query", "host", "app"):
        frame = by_group(found, group)
        assert frame["stragglers"].sum() == len(found.stragglers)
        assert (frame["stragglers"] <= frame["tasks"]).all()
        assert frame["delay_ms"].sum() == pytest.approx(as_json["delay_ms"])


def test_a_straggler_of_a_busy_host_names_who_was_there() -> None:
    truth = simulate(2, stages=2)
    found = stragglers_of(truth.tables)
    linked = found.causes.index.isin(found.sources["cause"])
    assert set(found.causes["cause"][linked]) == {"host-cpu"}
    assert found.sources.groupby("cause")["share"].sum().tolist() == pytest.approx(
        [1.0] * int(linked.sum())
    )


def test_the_vocabulary_fits_its_schema_and_names_every_cause() -> None:
    data = json.loads((REPO / "rules" / "causes.json").read_text(encoding="utf-8"))
    schema = json.loads((REPO / "rules" / "causes.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(data, schema)
    features = (*FEATURE_LIST, SLOW_HOST)
    named = {c for f in features for c in (f.cause, f.elsewhere, f.instead) if c}
    assert named == set(straggler_causes())
    assert data["acts_on"] == "advice"
    assert straggler_cause("a trace's metric").advice == ""


def test_no_advice_on_stragglers_becomes_a_pool(log: Path, tmp_path: Path) -> None:
    rules = tmp_path / "rules.json"
    assert iqcar("analyze", log, "--rules", rules).returncode == 0
    file = json.loads(rules.read_text())
    assert {rule["rule-type"] for rule in file["rules"]} <= {"ADVICE"}
    assert file["pools"] == file["assignments"] == []


def test_every_setting_is_documented_with_its_default() -> None:
    page = (REPO / "docs" / "stragglers.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| `(\w+)` \| (\S+) \|", page, re.MULTILINE))
    plain = StragglerSettings().to_dict()
    assert listed.keys() == plain.keys()
    for name, value in plain.items():
        assert listed[name] == (str(value).lower() if isinstance(value, bool) else f"{value:g}"
                                if isinstance(value, float) else str(value))  # fmt: skip


def fits_schema(found: dict) -> None:
    schema = json.loads(result_schema())
    part = {"$defs": schema["$defs"], "$ref": "#/$defs/ResultStragglers"}
    jsonschema.Draft202012Validator(part).validate(found)
