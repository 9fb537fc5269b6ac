"""What a resource manager adds to a diagnosis is bounded, escaped and redacted in every report."""

from __future__ import annotations

import json
from io import StringIO
from math import nan
from pathlib import Path

import jsonschema
import pytest
from rich.console import Console

import iqcar
from iqcar import Diagnosis
from iqcar.logs.find.resource_manager import YarnApplication, YarnTold
from iqcar.say.input_sections import yarn_section, yarn_sentence
from iqcar.show.html.page import render_page
from iqcar.show.json.analyze import result_schema, to_json
from iqcar.show.terminal.analyze import print_answer, print_diagnosis
from tests.support.plotted import HOSTILE
from tests.support.wasted_log import wasted_log

HOLDER = YarnApplication(
    application_id="application_1_0001", name="nightly", user="ann", queue="etl",
    state="FINISHED", diagnostics="", submitted_ms=1.0, launched_ms=2.0, until_ms=100_002.0,
    memory_mb_s=100_000.0,
)  # fmt: skip
WAITS = HOLDER._replace(
    application_id="application_1_0002", name="late", queue="adhoc", state="ACCEPTED",
    submitted_ms=40_002.0, launched_ms=nan, memory_mb_s=0.0,
    diagnostics="AM resource limit exceeded. token=abcdef1234567890",
)  # fmt: skip


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wasted_log().write(tmp_path_factory.mktemp("yarn") / "app-1")


def diagnosed(log: Path, *apps: YarnApplication) -> Diagnosis:
    told = YarnTold("http://rm:8088", apps, 2000.0, 8.0, 2.0)
    return iqcar.diagnose(iqcar.read(log), expected=False, yarn=told)


def printed(found: Diagnosis, whole: bool = True) -> str:
    out = StringIO()
    console = Console(file=out, width=4000, highlight=False, markup=False)
    if whole:
        print_diagnosis(found, console)
    else:
        print_answer(found, console=console)
    return out.getvalue()


def test_who_waits_for_whom_is_said_first_and_in_full(log: Path) -> None:
    found = diagnosed(log, HOLDER, WAITS)
    said = (
        "late (queue adhoc) has been waiting 60.0 s for its first container, 60.0 s of that put "
        "down to nightly (queue etl), which held most."
    )
    assert said in " ".join(printed(found, whole=False).split())
    shown = printed(found)
    assert said in shown
    assert "late waits still: AM resource limit exceeded. token=*(redacted)" in shown
    assert "rm:8088 has 2 nodes now: 2 GiB, 8 cores." in shown


def test_the_limit_of_a_queue_is_named_where_the_cluster_was_not_full(log: Path) -> None:
    found = diagnosed(log, HOLDER._replace(memory_mb_s=10_000.0), WAITS)
    assert found.yarn is not None
    assert "took 5 % of the cluster's memory: look at the limits" in yarn_sentence(found.yarn)
    alone = diagnosed(log, WAITS)
    assert alone.yarn is not None
    assert "no other application is known to have held containers" in yarn_sentence(alone.yarn)


def test_the_json_holds_it_and_keeps_its_schema(log: Path) -> None:
    result = json.loads(to_json(diagnosed(log, HOLDER, WAITS)))
    jsonschema.validate(result, json.loads(result_schema()))
    (one,) = result["yarn"]["pending"]
    assert (one["name"], one["wait_ms"], one["has_log"]) == ("late", 60_000, False)
    assert [(h["name"], h["lost_ms"]) for h in one["holders"]] == [("nightly", 60_000)]
    assert (result["yarn"]["memory_mb"], result["yarn"]["nodes"]) == (2000, 2)


def test_without_a_manager_nothing_is_said(log: Path) -> None:
    found = iqcar.diagnose(iqcar.read(log), expected=False)
    assert yarn_section(found.yarn, 5).is_empty()
    assert json.loads(to_json(found))["yarn"] is None
    assert "YARN" not in printed(found)


@pytest.mark.slow
@pytest.mark.parametrize("text", HOSTILE)
def test_what_a_manager_says_is_text_and_bounded(text: str, log: Path) -> None:
    bad = {"name": text, "queue": text, "user": text, "diagnostics": text * 3}
    found = diagnosed(log, HOLDER._replace(**bad), WAITS._replace(**bad))
    shown = printed(found)
    assert "\x1b" not in shown
    page = render_page(found)
    part = page[page.index('<section id="yarn"') :].partition("</section>")[0]
    assert "<script>alert" not in part
    json.loads(to_json(found))
