"""Wasted work in every report: the same figures, in words that say what to do."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import jsonschema
import pytest
from rich.console import Console

import iqcar
from iqcar import Diagnosis
from iqcar.enums import WasteCause
from iqcar.rules.vocabulary import errors, rules_folder, waste_cause, waste_causes
from iqcar.say import find_verdict
from iqcar.show.html.page import render_page
from iqcar.show.json.analyze import result_schema, to_dict, to_json
from iqcar.show.terminal.analyze import print_diagnosis, print_levels
from iqcar_lab.clusters.event_log import SyntheticLog, stage_info, task_metrics
from tests.support.contended_log import contended_log
from tests.support.plotted import HOSTILE
from tests.support.wasted_log import wasted_log


def diagnosed(log: SyntheticLog, folder: Path) -> Diagnosis:
    return iqcar.diagnose(iqcar.read(log.write(folder / "app-1")), expected=False)


@pytest.fixture(scope="module")
def hurt(tmp_path_factory: pytest.TempPathFactory) -> Diagnosis:
    return diagnosed(wasted_log(), tmp_path_factory.mktemp("wasted"))


def printed(diagnosis: Diagnosis) -> str:
    out = StringIO()
    print_diagnosis(diagnosis, Console(file=out, width=4000, highlight=False, markup=False))
    return out.getvalue()


def test_the_text_says_what_a_killed_executor_cost_and_what_helps(hurt: Diagnosis) -> None:
    text = printed(hurt)
    assert (
        "- victim ended about 5.0 s (50 % of its run) later because of a killed executor: "
        "1 attempt came to nothing and 1 finished task had to run again, 9.0 s of task time. "
        "Spark says: Container killed on request. Exit code is 137, token=*(redacted)." in text
    )
    assert "A killed executor: Exit code 137 is mostly a memory limit" in text
    assert (
        "- retried ended about 2.0 s (50 % of its run) later because of failed tasks: 1 attempt "
        "came to nothing, 2.0 s of task time. Spark says: Error: boom." in text
    )
    assert "victim" in text.splitlines()[1]
    assert "1. Failed  saves about" in text


def test_blame_of_one_query_says_what_it_wasted(hurt: Diagnosis) -> None:
    out = StringIO()
    print_levels(hurt, Console(file=out, width=4000, highlight=False, markup=False))
    assert "Wasted work: victim ended about 5.0 s" in out.getvalue()


def test_the_json_holds_the_same_and_keeps_its_schema(hurt: Diagnosis) -> None:
    result = json.loads(to_json(hurt))
    jsonschema.validate(result, json.loads(result_schema()))
    whole = result["wasted_work"]
    assert (whole["attempts"], whole["again"]) == (3, 1)
    assert (whole["task_ms"], whole["elapsed_ms"]) == (11_000, 7000)
    assert whole["share"] == pytest.approx(11 / 26)
    assert [one["cause"] for one in whole["by_cause"]] == ["executor-lost", "task-failed"]
    first = whole["by_query"][0]
    assert (first["cause_name"], first["executor_id"]) == ("a killed executor", "1")
    assert "token=*(redacted)" in first["message"]
    queries = [(one["wasted_task_ms"], one["wasted_elapsed_ms"]) for one in result["queries"]]
    assert queries == [(9000, 5000), (2000, 2000)]


def test_python_offers_it_by_query_and_by_attempt(hurt: Diagnosis) -> None:
    assert hurt.wasted.by_query["task_ms"].tolist() == [9000, 2000]
    assert hurt.wasted.tasks["task_ms"].tolist() == [4000, 5000, 2000]
    assert hurt.queries["wasted_elapsed_ms"].tolist() == [5000, 2000]


@pytest.mark.slow
def test_page_and_notebook_name_it_too(hurt: Diagnosis) -> None:
    page, cell = render_page(hurt), hurt._repr_html_()
    for shown in (page, cell):
        assert "a killed executor" in shown
        assert "Exit code 137 is mostly a memory limit" in shown
        assert "abcdef1234567890" not in shown
    assert 'id="wasted-table"' in page
    assert not find_verdict(hurt).quiet


@pytest.mark.slow
def test_a_run_without_failures_wastes_nothing_and_says_so(tmp_path: Path) -> None:
    diagnosis = diagnosed(contended_log(), tmp_path)
    assert len(diagnosis.wasted.tasks) == len(diagnosis.wasted.by_query) == 0
    assert "Wasted work" not in printed(diagnosis)
    assert "No work was wasted" in render_page(diagnosis)
    assert "Wasted work" not in diagnosis._repr_html_()
    assert to_dict(diagnosis)["wasted_work"]["by_query"] == []


@pytest.mark.slow
@pytest.mark.parametrize("text", HOSTILE)
def test_what_spark_says_is_text_and_bounded(text: str, tmp_path: Path) -> None:
    diagnosis = diagnosed(wasted_log(name=text, message=text * 3), tmp_path)
    line = next(one for one in find_verdict(diagnosis).wasted if one.cause == "task-failed")
    assert len(line.sentence) < 600
    assert "\x1b" not in printed(diagnosis)
    page = render_page(diagnosis)
    for shown in (page[page.index('<section id="wasted"') :], diagnosis._repr_html_()):
        assert "<script>alert" not in shown.partition("</section>")[0]


def taken_log(pool: str) -> SyntheticLog:
    """`etl` loses a slot after 2 s to `dash`, as Databricks logs its task preemption."""
    log = SyntheticLog("app-1").app("shared", 0).executor("1", "a", 1, 0)
    log.environment(spark_databricks_preemption_enabled="true")
    for number, name in enumerate(("etl", "dash")):
        properties = {
            "spark.sql.execution.id": str(number),
            "spark.scheduler.pool": f"{name} {pool}",
        }
        info = stage_info(number, submission=0)
        log.sql(number, description=name, time=0).job(number, [info], 0, properties)
        log.stage(info, properties)
    killed = {"Reason": "TaskKilled", "Kill Reason": "preempted by scheduler", "Accumulables": []}
    times = ((0, 0, 0, 2000), (1, 1, 2003, 4000), (2, 0, 4000, 8000))
    for task, stage, launch, finish in times:
        run = finish - launch
        log.task(
            task,
            stage=stage,
            metrics=task_metrics(Executor_Run_Time=run, Executor_CPU_Time=run * 1_000_000),
            more={"Task End Reason": {"Reason": "Success"} if task else killed},
            launch=launch,
            finish=finish,
            host="a",
            executor="1",
            Attempt=int(task == 2),
        )
    for number, end in ((1, 4000), (0, 8000)):
        log.stage_end(stage_info(number, submission=0), end)
        log.job_end(number, end).sql_end(number, end)
    return log.end(8000)


def test_a_slot_taken_for_others_names_the_query_and_pool_that_got_it(tmp_path: Path) -> None:
    diagnosis = diagnosed(taken_log("team"), tmp_path)
    result = json.loads(to_json(diagnosis))
    jsonschema.validate(result, json.loads(result_schema()))
    [line] = result["wasted_work"]["by_query"]
    assert (line["cause"], line["attempts"], line["taken"]) == ("slot-taken", 1, 1)
    assert line["taken_by"] == result["queries"][1]["query_id"]
    assert line["taken_by_pool"] == "dash team"
    said = "1 of 1 slots are seen to go to others, most to dash (pool dash team)."
    for shown in (printed(diagnosis), render_page(diagnosis)):
        assert "slots taken for others" in shown
        assert "no longer needed" not in shown
    assert said in printed(diagnosis)


@pytest.mark.long
@pytest.mark.parametrize("text", HOSTILE)
def test_the_pool_that_got_a_slot_is_text_and_holds_no_secret(text: str, tmp_path: Path) -> None:
    hidden = "Xq8vWz3nRt6yLp2k"
    diagnosis = diagnosed(taken_log(f"{text} password={hidden}"), tmp_path)
    assert "\x1b" not in printed(diagnosis)
    assert "<script>alert" not in render_page(diagnosis).partition('<section id="wasted"')[2]
    shown = printed(diagnosis), render_page(diagnosis), to_json(diagnosis).decode()
    assert not any(hidden in one for one in shown)


MESSAGES = {
    "Container killed by YARN for exceeding memory limits. 5.5 GB of 5 GB used": "-memory",
    "The executor with id 4 exited with exit code 137(SIGKILL, possible container OOM).": "-killed",
    "Command exited with code 137": "-killed",
    "Container marked as failed: x on host: h. Exit status: 137. Diagnostics: y": "-killed",
    "Container marked as failed: x on host: h. Exit status: 52. Diagnostics: y": "-memory",
    "java.lang.OutOfMemoryError: Java heap space": "heap-memory",
    "Container from a bad node: c on host: h. Exit status: 137. Possible causes: Unknown executor"
    " exit code (137) (died from signal 9?) Diagnostics: Container killed on request.": "-killed",
    "Container from a bad node: c on host: h. Exit status: 143. Diagnostics: d": "-killed",
    "Container killed by YARN for exceeding physical memory limits. Consider boosting"
    " spark.executor.memoryOverhead.": "-memory",
    "Container killed by YARN for exceeding virtual memory limits. 5 GB of 2.1 GB virtual memory"
    " used. Consider boosting spark.executor.memoryOverhead": "-virtual-memory",
    "Container marked as failed: c on host: h. Exit status: -100. Diagnostics: Container released"
    " on a *lost* node": "-node",
    "Container marked as failed: c. Exit status: -101. Possible causes: Unknown executor exit code"
    " (-101)": "-node",
    "Container marked as failed: c. Exit status: -106. Diagnostics: d": "-manager",
    "Container marked as failed: c. Exit status: -1037. Diagnostics: d": "executor-start",
    "Container c exited from explicit termination request.": "",
    "Executor heartbeat timed out after 131072 ms": "-silent",
    "Remote RPC client disassociated. Likely due to containers exceeding thresholds": "",
    "Command exited with code 1370": "executor-start",
    "worker lost": "-node",
    "Container marked as failed: x on host: h. Exit status: 56.": "-heartbeat",
}


@pytest.mark.parametrize(("message", "kind"), MESSAGES.items())
def test_advice_fits_what_spark_says_of_a_lost_executor(message: str, kind: str) -> None:
    known = errors() if kind else waste_causes()
    expected = known[kind if kind.startswith(("heap", "executor")) else f"executor-lost{kind}"]
    assert waste_cause(WasteCause.EXECUTOR_LOST, message) == expected
    assert waste_cause(WasteCause.PREEMPTED, message) == waste_causes()["preempted"]


def test_every_cause_has_a_name_and_advice_in_the_format_of_its_schema() -> None:
    data, schema = (
        json.loads((rules_folder() / name).read_text(encoding="utf-8"))
        for name in ("wasted.json", "wasted.schema.json")
    )
    jsonschema.validate(data, schema)
    assert {str(cause) for cause in WasteCause} <= waste_causes().keys()
    fields = json.loads(result_schema())["$defs"]["ResultWastedByCause"]["properties"]
    assert set(fields["cause"]["enum"]) == {str(cause) for cause in WasteCause}
