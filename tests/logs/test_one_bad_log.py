"""One bad log never harms the rest: it is a failed or truncated input, all others are analysed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import iqcar
from iqcar import pipeline
from iqcar.apps.cli.main import main
from iqcar.errors import DEBUG, ExitCode
from iqcar.logs import ingest as reading
from iqcar.logs.ingest import UnsoundError, check_tables
from iqcar.replay import proposals
from iqcar.show.json.analyze import to_json
from iqcar.tables import LAST_PLAUSIBLE_MS, Tables
from iqcar_lab.clusters.event_log import SyntheticLog, node, stage_info
from tests.support.contended_log import contended_log
from tests.support.crowded_log import crowded_log
from tests.support.log_sources import recorded_log

IMPOSSIBLE_IDS: dict[str, Any] = {
    "executionId": lambda log: log.sql(2**63),
    "executionId as a float": lambda log: log.sql(1e308),
    "rootExecutionId": lambda log: log.sql(0, rootExecutionId=2**64),
    "executionId of an end": lambda log: log.sql_end(2**63),
    "accumulatorId": lambda log: log.sql(0, node("Scan", metrics=[(2**63, "scan time", "timing")])),
    "Job ID": lambda log: log.job(2**63, [0]),
    "Job ID below zero": lambda log: log.job(-1, [0]),
    "Job ID of an end": lambda log: log.job_end(2**31),
    "Stage ID": lambda log: log.stage(stage_info(2**63)),
    "Stage ID of a job": lambda log: log.job(0, [stage_info(2**31)]),
    "Stage Attempt ID": lambda log: log.stage(stage_info(0, attempt=2**31)),
    "RDD ID": lambda log: log.stage(stage_info(0, rdds=[{"RDD ID": 10**400}])),
    "Parent IDs": lambda log: log.stage(stage_info(0, parents=[2**40])),
}
IMPOSSIBLE_NUMBERS: dict[str, Any] = {
    "Number of Tasks": lambda log: log.stage(stage_info(0, **{"Number of Tasks": 2**63})),
    "Total Cores": lambda log: log.executor("9", cores=1e308),  # type: ignore[arg-type]
    "Timestamp": lambda log: log.executor("9", time=4e15),
    "Submission Time": lambda log: log.stage(stage_info(0, submission=1e17)),
    "Completion Time": lambda log: log.stage_end(0, time=1e308),
    "time": lambda log: log.sql(0, time=2**63),
}


def beside_a_good_one(log: SyntheticLog, folder: Path) -> Tables:
    """Read and diagnose a log in a folder with a good one, which must come out whole."""
    contended_log("app-good").write(folder / "good")
    log.write(folder / "bad")
    tables = iqcar.read(folder)
    json.loads(to_json(iqcar.diagnose(tables)))
    (good,) = tables.inputs[tables.inputs["path"].str.endswith("good")].to_dict("records")
    assert (good["status"], good["tasks"], good["malformed_lines"]) == ("complete", 4, 0)
    return tables


def bad_input(tables: Tables) -> dict[str, Any]:
    (bad,) = tables.inputs[tables.inputs["path"].str.endswith("bad")].to_dict("records")
    return bad


@pytest.mark.long
@pytest.mark.parametrize("name", IMPOSSIBLE_IDS)
def test_an_event_about_an_impossible_id_is_malformed(name: str, tmp_path: Path) -> None:
    log = SyntheticLog().app().executor().job(0, [0]).stage(0).task(0)
    whole = len(log.lines) + 1
    IMPOSSIBLE_IDS[name](log)
    bad = bad_input(beside_a_good_one(log.end(), tmp_path))
    assert (bad["status"], bad["malformed_lines"]) == ("truncated", 1)
    assert (bad["events"], bad["tasks"]) == (whole, 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", IMPOSSIBLE_NUMBERS)
def test_any_other_impossible_number_is_unknown(name: str, tmp_path: Path) -> None:
    log = IMPOSSIBLE_NUMBERS[name](SyntheticLog().app().executor().job(0, [0])).task(0)
    bad = bad_input(beside_a_good_one(log.end(), tmp_path))
    assert (bad["status"], bad["malformed_lines"]) == ("complete", 0)
    assert "number that made no sense" in bad["message"]


@pytest.mark.parametrize("text", ["1e308", "9223372036854775808", "inf", "-1"])
def test_a_job_of_an_impossible_query_belongs_to_none(text: str, tmp_path: Path) -> None:
    properties = {"spark.sql.execution.id": text, "spark.sql.execution.root.id": text}
    log = SyntheticLog().app().executor().job(0, [0], properties=properties).stage(0).task(0)
    tables = beside_a_good_one(log.end(), tmp_path)
    assert len(tables.sql_executions) == 2
    assert bad_input(tables)["status"] == "complete"


def test_a_task_of_an_unknown_executor_on_no_host_is_kept(tmp_path: Path) -> None:
    log = SyntheticLog().app().job(0, [0]).stage(0).task(0, host="", executor="7")
    tables = beside_a_good_one(log.end(), tmp_path)
    assert bad_input(tables)["tasks"] == 1
    assert "7" in set(tables.executors["executor_id"])


@pytest.mark.parametrize("to", [4e15, 1e17, 2.0**63, -2e12, 9.999e13])
def test_times_that_are_all_impossible_end_soon_and_are_unknown(to: float, tmp_path: Path) -> None:
    log = recorded_log(contended_log("app-1", 1_700_000_000_000))

    def moved(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: moved(one, name) for name, one in value.items()}
        if isinstance(value, list):
            return [moved(one, key) for one in value]
        is_time = "Time" in key or key in ("time", "timeMs", "t", "start_ms")
        return int(value + to) if is_time and value > 1e12 else value

    log.lines = [json.dumps(moved(json.loads(line))).encode() for line in log.lines]
    tables = beside_a_good_one(log, tmp_path)
    for name in ("launch_ms", "finish_ms"):
        assert tables.tasks[name].between(0, LAST_PLAUSIBLE_MS).all()
    if to != 9.999e13:
        assert "impossible start or end" in bad_input(tables)["message"]


def test_halves_of_characters_reach_no_table(tmp_path: Path) -> None:
    log = recorded_log(contended_log("app-1", 1_700_000_000_000))
    log.lines = [
        line.replace(b"host-a", b"h\\ud800").replace(b"etl", b"\\udfff") for line in log.lines
    ]
    log.lines = [line.replace(b"NODE_LOCAL", b"\\ud800") for line in log.lines]
    tables = beside_a_good_one(log, tmp_path)
    assert "h?" in set(tables.hosts["host"])
    for _, frame in tables:
        assert frame.to_json(orient="values", force_ascii=False).encode()


def test_durations_that_are_none_are_unknown(tmp_path: Path) -> None:
    log = recorded_log(contended_log("app-1", 1_700_000_000_000))
    log.lines = [line.replace(b'Time":10,', b'Time":1e18,') for line in log.lines]
    tables = beside_a_good_one(log, tmp_path)
    durations = tables.tasks[tables.tasks["app"] == bad_input(tables)["app"]]["deserialize_ms"]
    assert durations.isna().all()


def test_a_bug_met_in_one_log_fails_that_log_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    judge = reading.judge

    def judge_or_break(log: Any, *more: Any, **named: Any) -> Any:
        if log.path.endswith("bad"):
            raise KeyError("a bug")
        return judge(log, *more, **named)

    monkeypatch.setattr(reading, "judge", judge_or_break)
    bad = bad_input(beside_a_good_one(contended_log(), tmp_path))
    assert (bad["status"], bad["tasks"]) == ("failed", 0)
    assert bad["message"].startswith("reading it hit a bug of iqcar (KeyError at ")
    assert capsys.readouterr().err == ""
    monkeypatch.setenv(DEBUG, "1")
    iqcar.read(tmp_path)
    assert "Traceback" in capsys.readouterr().err


def test_too_little_memory_for_one_log_fails_that_log_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_large(log: Any, path: str, attempt: str) -> Any:
        if path.endswith("bad"):
            raise MemoryError
        return assemble(log, path, attempt)

    assemble = reading.assemble
    monkeypatch.setattr(reading, "assemble", too_large)
    bad = bad_input(beside_a_good_one(contended_log(), tmp_path))
    assert bad["message"] == "reading it needs more memory than there is"


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("tasks", "stage", 99),
        ("tasks", "host", -2),
        ("jobs", "sql_execution", 2),
        ("tasks", "run_ms", np.inf),
        ("jobs", "submission_ms", 1e15),
        ("tasks", "launch_ms", np.nan),
        ("tasks", "finish_ms", 1.0),
    ],
)
def test_tables_that_break_a_promise_are_refused(
    table: str, column: str, value: float, tmp_path: Path
) -> None:
    tables = iqcar.read(contended_log().write(tmp_path / "app-1"))
    check_tables(tables)
    broken = dict(tables)[table].copy()
    broken[column] = broken[column].to_numpy(copy=True)
    broken.loc[1, column] = value
    with pytest.raises(UnsoundError, match=f"{table}.{column}"):
        check_tables(tables.with_(**{table: broken}))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "step"),
    [(pipeline, "identify"), (pipeline, "measure_waits"), (proposals, "propose")],
    ids=["identify", "measure_waits", "propose"],
)
@pytest.mark.parametrize("bad_first", [True, False])
def test_a_bug_met_after_reading_fails_the_application_it_is_met_in(
    module: ModuleType,
    step: str,
    bad_first: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recorded_log(crowded_log("app-bad")).write(tmp_path / ("a-bad" if bad_first else "z-bad"))
    recorded_log(contended_log("app-good", 1_700_000_000_000)).write(tmp_path / "good")
    alone = iqcar.diagnose(iqcar.read(tmp_path / "good"), targets=["report"])
    whole = json.loads(to_json(alone))
    work = getattr(module, step)

    def work_or_break(tables: Tables, *more: Any, **named: Any) -> Any:
        if "app-bad" in set(tables.applications["application_id"]):
            raise ZeroDivisionError("a bug")
        return work(tables, *more, **named)

    monkeypatch.setattr(module, step, work_or_break)
    diagnosis = iqcar.diagnose(iqcar.read(tmp_path), targets=["report"])
    result = json.loads(to_json(diagnosis))
    assert result["queries"] == whole["queries"]
    assert result["rules"] == whole["rules"]
    check_tables(diagnosis.tables.with_(queries=Tables.empty().queries))
    good, bad = sorted(result["inputs"], key=lambda one: one["path"].endswith("bad"))
    assert (good["status"], bad["status"]) == ("complete", "failed")
    assert bad["message"].startswith("analysing it hit a bug of iqcar (ZeroDivisionError at ")


@pytest.mark.parametrize("command", ["stragglers", "topics"])
def test_a_bug_met_after_reading_fails_its_application_in_every_command(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    recorded_log(crowded_log("app-bad")).write(tmp_path / "bad")
    recorded_log(contended_log("app-good", 1_700_000_000_000)).write(tmp_path / "good")

    def results(path: Path) -> tuple[int, dict[str, Any]]:
        monkeypatch.setattr(sys, "argv", ["iqcar", command, str(path), "--json", "-"])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, json.loads(capsys.readouterr().out)  # type: ignore[return-value]

    code, alone = results(tmp_path / "good")
    assert code == ExitCode.OK
    build = pipeline.build_features

    def build_or_break(tables: Tables, *more: Any) -> Any:
        if "app-bad" in set(tables.applications["application_id"]):
            raise ZeroDivisionError("a bug")
        return build(tables, *more)

    monkeypatch.setattr(pipeline, "build_features", build_or_break)
    code, result = results(tmp_path)
    assert code == ExitCode.PARTIAL
    bad, good = sorted(result["inputs"], key=lambda one: str(one["path"]))
    assert (good["status"], bad["status"]) == ("complete", "failed")
    assert bad["message"].startswith("analysing it hit a bug of iqcar (ZeroDivisionError at ")
    assert result[command] == alone[command]


def test_a_bug_that_no_application_shows_alone_is_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(tables: Tables, *more: Any) -> Any:
        if len(tables.applications) > 1:
            raise ZeroDivisionError
        return propose(tables, *more)

    propose = pipeline.measure_waits
    monkeypatch.setattr(pipeline, "measure_waits", broken)
    for app_id in ("app-1", "app-2"):
        contended_log(app_id).write(tmp_path / app_id)
    with pytest.raises(ZeroDivisionError):
        iqcar.diagnose(iqcar.read(tmp_path))


@pytest.mark.parametrize("debug", ["", "environment", "option"])
def test_a_bug_met_after_reading_is_one_line_and_a_traceback_only_if_asked(
    debug: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def broken(*tables: Any, **settings: Any) -> None:
        raise ZeroDivisionError("a bug")

    log = contended_log().write(tmp_path / "app-1")
    options = ["--debug"] if debug == "option" else []
    monkeypatch.setattr(pipeline, "diagnose", broken)
    monkeypatch.setattr(sys, "argv", ["iqcar", *options, "analyze", str(log)])
    monkeypatch.setenv(DEBUG, "1" if debug == "environment" else "0")
    with pytest.raises(SystemExit) as ended:
        main()
    out, errors = capfd.readouterr()
    assert (ended.value.code, out) == (1, "")
    last = errors.splitlines()[-1]
    assert last.startswith("iqcar: the analysis hit a bug of iqcar (ZeroDivisionError at ")
    assert ("Traceback" in errors) == bool(debug)
    assert (errors.count("\n") == 1) == (not debug)
