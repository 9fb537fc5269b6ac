"""What failed is said first, on logs of other people and on small ones written here."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

import iqcar
from iqcar.enums import FindingKind
from iqcar.say import find_verdict
from iqcar.show.html.page import render_page
from iqcar.show.terminal.analyze import print_queries
from iqcar_lab.clusters.event_log import SyntheticLog, stage_info
from tests.support.real_logs import LOGS, diagnosis_of_log

shared = pytest.mark.skipif(not LOGS, reason="the folder of shared event logs is not there")


@shared
@pytest.mark.parametrize(
    ("log", "headline", "parts"),
    [
        (
            "local-1422981780767",
            "FAILED: map: RuntimeException: got a 3, failing.",
            ("failed after 518 ms", "RuntimeException: got a 3, failing"),
        ),
        (
            "application_1713000000000_0001_2.zstd",
            "FAILED: collect at /app/generate_events.py:62: PythonException: Exception: "
            "deliberate permanent failure.",
            ("8 of its 8 attempts failed",),
        ),
        (
            "tasks_executors_fail_compressed_eventlog.zstd",
            "FAILED: show: aggregate of local rows (14th run): Job 79 cancelled because "
            "SparkContext was shut down.",
            ("was cancelled after 599 ms", "2 executors were lost, 2 shuffle fetches failed"),
        ),
        (
            "app-20161116163331-0000",
            "8 of 24 attempts failed: RuntimeException: bad exec.",
            ("2 executors were excluded for it",),
        ),
    ],
)
def test_a_log_of_others_that_failed_says_so_first(
    log: str, headline: str, parts: tuple[str, ...]
) -> None:
    verdict = find_verdict(diagnosis_of_log(log))
    first = verdict.findings[0]
    assert verdict.headline == headline
    assert first.kind is FindingKind.FAILED
    assert all(part in first.sentence for part in parts)
    assert not verdict.quiet


@shared
def test_executors_lost_one_after_another_are_the_headline_and_said_once() -> None:
    verdict = find_verdict(diagnosis_of_log("application_1538416563558_0014"))
    said = "8 executors were lost one after another: container exit status 56"
    assert verdict.headline.startswith(f"{said}; filter at BisectingKMeans")
    assert verdict.findings[0].sentence.startswith(f"{said}; 8 of 35 attempts")
    assert "heartbeat" in verdict.findings[0].action
    kinds = [one.kind for one in verdict.findings]
    assert (kinds.count(FindingKind.FAILED), kinds.count(FindingKind.WASTED)) == (1, 0)


@shared
def test_a_log_in_which_hardly_anything_ended_offers_no_saving() -> None:
    found = diagnosis_of_log("app-20231025121456-0004-eventLog-running-incomplete")
    verdict = find_verdict(found)
    assert verdict.findings == ()
    assert "had not ended when the log ends (1 of 600 tasks had): nothing" in verdict.headline
    assert not verdict.quiet


@shared
@pytest.mark.parametrize("log", ["application_1628109047826_1317105", "spark2-eventlog.zstd"])
def test_executors_that_were_given_back_are_no_failure(log: str) -> None:
    kinds = {one.kind for one in find_verdict(diagnosis_of_log(log)).findings}
    assert FindingKind.FAILED not in kinds


def diagnosed(log: SyntheticLog, folder: Path) -> iqcar.Diagnosis:
    return iqcar.diagnose(iqcar.read(log.write(folder / "log")), expected=False)


def two_stages(message: str, ok: bool = False) -> SyntheticLog:
    """Two jobs of a stage each; the second one fails for a reason, or not."""
    log = SyntheticLog().app().executor()
    for job in range(2):
        info = stage_info(job, tasks=2)
        log.job(job, [info], time=1000 + 3000 * job).stage(info)
        for index in range(2):
            log.task(2 * job + index, stage=job, index=index)
        log.stage_end(info, time=3000 + 3000 * job)
        if job and not ok:
            result = {"Result": "JobFailed", "Exception": {"Message": message, "Stack Trace": []}}
            log.event(
                "SparkListenerJobEnd",
                {"Job ID": job, "Completion Time": 6000, "Job Result": result},
            )
        else:
            log.job_end(job, time=3000 + 3000 * job)
    return log


def test_a_cancelled_query_says_that_somebody_stopped_it(tmp_path: Path) -> None:
    found = diagnosed(two_stages("Job 1 cancelled part of cancelled job group g").end(), tmp_path)
    verdict = find_verdict(found)
    assert verdict.headline.startswith("CANCELLED: ")
    assert "Job 1 cancelled part of cancelled job group g" in verdict.headline
    out = StringIO()
    print_queries(found, Console(file=out, width=200, highlight=False, markup=False))
    assert " s cancelled " in out.getvalue()
    assert "job-1 cancelled: Job 1 cancelled part of" in out.getvalue()


def test_what_failed_is_text_and_holds_no_secret(tmp_path: Path) -> None:
    message = "a.B: <script>alert(1)</script> password=hunter2hunter2 \x1b[31mred"
    found = diagnosed(two_stages(message).end(), tmp_path)
    verdict = find_verdict(found)
    shown = verdict.headline + verdict.findings[0].sentence
    assert "B: <script>alert(1)</script>" in shown
    assert "\x1b" not in shown
    page = render_page(found)
    assert "<script>alert(1)" not in page
    assert "hunter2" not in shown + page


def test_a_log_that_is_cut_off_is_not_called_quiet(tmp_path: Path) -> None:
    whole = two_stages("", ok=True).end()
    assert "read whole" not in find_verdict(diagnosed(whole, tmp_path)).headline
    cut = tmp_path / "cut"
    cut.write_bytes(whole.bytes()[:-40])
    verdict = find_verdict(iqcar.diagnose(iqcar.read(cut), expected=False))
    assert not verdict.quiet
    assert verdict.headline.startswith("The log was not read whole")


def test_a_job_that_a_query_no_longer_needed_is_no_failure(tmp_path: Path) -> None:
    info = stage_info(0, tasks=2)
    log = SyntheticLog().app().executor().sql(0, "wanted")
    log.job(0, [info], properties={"spark.sql.execution.id": "0"}).stage(info)
    log.task(0, index=0).task(1, index=1).stage_end(info).job_end(0, ok=False)
    log.sql_end(0, error="").end()
    tables = iqcar.read(log.write(tmp_path / "log"))
    assert not tables.queries["failed"].any()
