"""Nobody is told to record with the plugin what was recorded with it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import iqcar
from iqcar.enums import FindingKind
from iqcar.rules.vocabulary import advice_for, rules_folder
from iqcar.say import find_verdict
from iqcar.show.html import render_page
from iqcar.show.json.analyze import to_json
from iqcar.show.pictures.timeline_payload import timeline_payload
from iqcar.show.terminal.analyze import print_diagnosis, print_stragglers
from iqcar.tables import TASK_RECORDS, Tables, recorded_applications
from iqcar_lab.clusters.frames import frame
from tests.causes.stragglers.test_shared_causes import stage_log

TOLD = re.compile(r"record( a run)? with the iqcar plugin|the iqcar plugin [^.]*records", re.I)
"""A sentence that tells to record with the plugin."""


def strings(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Every text of a JSON value with the key that it stands under."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, list):
        for one in value:
            yield from strings(one, key)
    elif isinstance(value, dict):
        for name, one in value.items():
            yield from strings(one, name)


@pytest.mark.parametrize("file", ["advice", "advice_kinds", "causes", "topics"])
def test_only_what_is_said_of_unrecorded_runs_names_the_plugin(file: str) -> None:
    content = json.loads((rules_folder() / f"{file}.json").read_text("utf-8"))
    assert {key for key, text in strings(content) if "plugin" in text} <= {"unrecorded"}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """Half of a stage sleeps for 3 s on one executor; nothing says for what, no host is sampled."""
    path = tmp_path_factory.mktemp("plain") / "app-1"
    return iqcar.read(stage_log(path, [False] * 15 + [True] * 5, ("a", "b")))


@pytest.fixture(scope="module")
def recorded(plain: Tables) -> Tables:
    """The same, where the plugin ran and lost all records but one, of a sampler that was off."""
    one = frame(TASK_RECORDS, 1, task=[0], sampler=["off"], run_queue_ms=[np.nan])
    return plain.with_(task_records=one)


def said(tables: Tables, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """All that reports say, on one line each."""
    diagnosis = iqcar.diagnose(tables, expected=False)
    print_diagnosis(diagnosis)
    print_stragglers(diagnosis.stragglers, 5)
    page = render_page(diagnosis)
    shown = {
        "terminal": capsys.readouterr().out,
        "page": re.sub(r"<script.*?</script>", "", page, flags=re.S),
        "json": to_json(diagnosis).decode(),
    }
    return {name: " ".join(text.split()) for name, text in shown.items()}


@pytest.mark.slow
def test_a_run_without_the_plugin_is_told_of_it_everywhere(plain, capsys) -> None:
    for name, text in said(plain, capsys).items():
        assert TOLD.search(text), name


@pytest.mark.slow
def test_a_run_with_the_plugin_is_not_told_to_record_with_it(recorded, capsys) -> None:
    assert recorded_applications(recorded).all()
    for name, text in said(recorded, capsys).items():
        assert not TOLD.search(text), (name, TOLD.search(text))


def test_the_advice_rule_and_causes_say_what_else_helps(plain: Tables, recorded: Tables) -> None:
    before, after = (iqcar.diagnose(one, expected=False) for one in (plain, recorded))
    assert set(before.stragglers.causes["cause"]) & {"off-cpu", "slow-host"}
    rules = [[one for one in d.rules if one.kind == "record-waits"] for d in (before, after)]
    assert [TOLD.search(one[0].advice) is not None for one in rules] == [True, False]
    assert rules[1][0].advice.startswith("Look first at services that user code calls")
    assert after.stragglers.recorded("off-cpu") and not before.stragglers.recorded("off-cpu")


def test_what_is_unattributed_is_advised_by_what_was_recorded(tmp_path: Path) -> None:
    tables = iqcar.read(stage_log(tmp_path / "log", [False, True, True], ("a", "b")))
    for recorded in (False, True):
        one = frame(TASK_RECORDS, 1, task=[0], sampler=["off"], run_queue_ms=[np.nan])
        run = tables.with_(task_records=one) if recorded else tables
        findings = find_verdict(iqcar.diagnose(run, expected=False)).findings
        action = next(one.action for one in findings if one.kind is FindingKind.UNKNOWN)
        assert action == advice_for("unattributed", recorded)
        assert (TOLD.search(action) is None) is recorded
        assert action.startswith("Include the event logs")


def test_one_application_without_the_plugin_is_still_told(plain: Tables, recorded: Tables) -> None:
    found = iqcar.diagnose(recorded, expected=False).stragglers
    mixed = found.stragglers.assign(recorded=[False, *found.stragglers["recorded"].tolist()[1:]])
    assert found.recorded("off-cpu")
    assert not replace(found, stragglers=mixed).recorded("off-cpu")


def test_the_timeline_knows_whether_the_plugin_ran(plain: Tables, recorded: Tables) -> None:
    for tables, ran in ((plain, False), (recorded, True)):
        diagnosis = iqcar.diagnose(tables, expected=False)
        assert timeline_payload(tables, diagnosis.waits)["recorded"] is ran
        assert find_verdict(diagnosis).headline
