"""Every report says which rules of the plugin acted when."""

from __future__ import annotations

import io
import json
from pathlib import Path

import jsonschema
from rich.console import Console

import iqcar
from iqcar.diagnosis import Diagnosis
from iqcar.show.html import render_page
from iqcar.show.json.analyze import result_schema, to_json
from iqcar.show.terminal.analyze import print_diagnosis
from tests.support.crowded_log import crowded_log

GOLD = {"kind": "pool", "rule": "AGG-1", "name": "<b>gold", "after": "FIFO weight 3 minShare 0"}


def ruled(folder: Path) -> Diagnosis:
    """A diagnosis of a log with one rule and one file that was not accepted."""
    log = crowded_log()
    for time, outcome, reason, changes in (
        (1_000_001_000, "accepted", "", [GOLD]),
        (1_000_002_000, "refused", "r.json: not JSON", []),
    ):
        event = {"timeMs": time, "outcome": outcome, "reason": reason, "changes": changes}
        log.event("org.iqcar.spark.IqcarEventRules", event)
    return iqcar.diagnose(iqcar.read(log.write(folder / log.app_id)), expected=False)


def test_terminal_page_and_json_say_which_rule_acted_and_what_was_refused(tmp_path: Path) -> None:
    diagnosis = ruled(tmp_path)
    terminal = io.StringIO()
    print_diagnosis(diagnosis, Console(file=terminal, width=200))
    said = terminal.getvalue()
    assert "Rules that acted" in said
    assert "pool <b>gold: FIFO weight 3 minShare 0" in said
    assert "rules file refused, the rules stayed as they were: r.json: not JSON" in said

    page = render_page(diagnosis)
    assert "pool &lt;b&gt;gold: FIFO weight 3 minShare 0" in page
    assert "r.json: not JSON" in page

    result = json.loads(to_json(diagnosis))
    jsonschema.validate(result, json.loads(result_schema()))
    (acted,) = result["acting_rules"]["acted"]
    assert (acted["rule"], acted["from_ms"], acted["until_ms"]) == ("AGG-1", 1_000_001_000, None)
    assert len(result["acting_rules"]["not_accepted"]) == 1


def test_without_rules_nothing_is_said_of_any(tmp_path: Path) -> None:
    log = crowded_log()
    diagnosis = iqcar.diagnose(iqcar.read(log.write(tmp_path / log.app_id)), expected=False)
    terminal = io.StringIO()
    print_diagnosis(diagnosis, Console(file=terminal))
    assert "Rules that acted" not in terminal.getvalue()
    assert 'id="acted"' not in render_page(diagnosis)
