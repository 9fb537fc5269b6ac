"""Findings: ranked, within their ranges and their runs, said once, and short at first."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

import iqcar
from iqcar.apps.notebook import Diagnosis
from iqcar.enums import FindingKind
from iqcar.say import find_verdict
from iqcar.say.findings import find_findings
from iqcar.show.json.analyze import result_schema, to_dict
from iqcar.show.terminal.analyze import print_answer
from iqcar.show.terminal.layout import NARROW, terminal
from iqcar_lab.clusters.event_log import SyntheticLog, stage_info
from tests.support.contended_log import contended_log
from tests.support.crowded_log import crowded_log

START = 1_700_000_000_000


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Diagnosis:
    path: Path = tmp_path_factory.mktemp("findings") / "app-1"
    return iqcar.diagnose(iqcar.read(crowded_log().write(path)))


def few_tasks(path: Path, tasks: list[float], slots: int) -> Diagnosis:
    """A query of one stage: its tasks start together and last so many seconds."""
    log = SyntheticLog("app-1").executor("1", "host-a", cores=slots)
    info = stage_info(0, submission=START + 100, **{"Number of Tasks": len(tasks)})
    log.job(0, [info], START + 100, {}).stage(info, {})
    for number, seconds in enumerate(tasks):
        until = START + 110 + int(1000 * seconds)
        log.task(number, launch=START + 110, finish=until, host="host-a")
    end = START + 120 + int(1000 * max(tasks))
    log.stage_end(info, end).job_end(0, end + 10).end(end + 20)
    return iqcar.diagnose(iqcar.read(log.write(path)))


def test_what_saves_most_comes_first_within_its_range(crowded: Diagnosis) -> None:
    findings = find_findings(crowded)
    assert findings
    assert [one.saves_ms for one in findings] == sorted(
        (one.saves_ms for one in findings), reverse=True
    )
    for one in findings:
        assert 0 <= one.low_ms <= one.saves_ms <= one.high_ms
        assert 0 < one.share <= 1
        assert one.sentence and one.action and one.queries


def test_the_answer_fits_25_lines_of_80_and_says_what_to_do_next(crowded: Diagnosis) -> None:
    shown = io.StringIO()
    named = replace(crowded, tables=replace(crowded.tables, given="spark-events/"))
    print_answer(named, terminal(shown, NARROW))
    lines = shown.getvalue().splitlines()
    assert len(lines) <= 25
    assert max(len(line.rstrip()) for line in lines) <= NARROW
    assert lines[-1].startswith("All of it (")
    assert lines[-1].endswith("iqcar analyze spark-events/ --full")
    assert find_verdict(named).findings[0].saving in " ".join(shown.getvalue().split())


def test_the_result_has_them_in_the_form_of_its_schema(crowded: Diagnosis) -> None:
    result = json.loads(json.dumps(to_dict(crowded)))
    jsonschema.validate(result, json.loads(result_schema()))
    kinds = [one["kind"] for one in result["findings"]]
    assert kinds == [str(one.kind) for one in find_findings(crowded)]
    assert {one["query_ids"][0] for one in result["findings"]} <= {
        one["query_id"] for one in result["queries"]
    }


def test_a_query_in_the_way_is_named_with_what_it_cost(tmp_path: Path) -> None:
    diagnosis = iqcar.diagnose(iqcar.read(contended_log().write(tmp_path / "app-1")))
    first = find_findings(diagnosis)[0]
    assert first.kind is FindingKind.CONTENTION
    assert "etl was in the way of report, which lost 9.0 s of its 10.0 s" in first.sentence


@given(tasks=st.integers(1, 6), seconds=st.floats(2.0, 60.0), more=st.integers(1, 20))
def test_idle_slots_beside_long_tasks_are_said_with_their_number(
    tmp_path_factory: pytest.TempPathFactory, tasks: int, seconds: float, more: int
) -> None:
    slots = tasks + more
    path = tmp_path_factory.mktemp("few") / "app-1"
    findings = find_findings(few_tasks(path, [seconds] * tasks, slots))
    best = seconds * 1000.0 * (1.0 - tasks / slots)
    named = [one for one in findings if one.kind is FindingKind.PARTITIONS]
    if best < 2500.0 or 1.0 - tasks / slots < 0.1:
        return
    assert named, [one.kind for one in findings]
    assert f"for {slots} slots" in named[0].sentence
    assert named[0].high_ms <= seconds * 1000.0 + 200.0
    assert named[0].low_ms <= best <= 1.05 * named[0].high_ms


def test_equal_tasks_on_all_slots_have_no_partitions_to_change(tmp_path: Path) -> None:
    findings = find_findings(few_tasks(tmp_path / "app-1", [5.0] * 4, 4))
    assert not {one.kind for one in findings} & {FindingKind.PARTITIONS, FindingKind.SKEW}
