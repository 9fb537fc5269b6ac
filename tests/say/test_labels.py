"""Tests: findings of real logs are what an expert says of them, and nothing that nobody may say."""

from __future__ import annotations

from pathlib import Path

import pytest

import iqcar
from iqcar.enums import FindingKind
from iqcar.say import find_verdict
from tests.conftest import REPO
from tests.support.finding_labels import NOTHING, judged, labels
from tests.support.real_logs import LOGS, diagnosis_of_log

LABELS = labels()
EXAMPLES = [name for name in LABELS if (REPO / "examples" / name).exists()]
RIGHT = 18
"""Of the 21 real logs: experts differ about some."""


def test_every_real_log_has_a_label_of_known_kinds(shared_logs: Path) -> None:
    kinds = {kind.value for kind in FindingKind} | {NOTHING}
    assert set(LOGS) <= set(LABELS)
    assert all(set(one.first + one.never) <= kinds for one in LABELS.values())
    assert all(not set(one.first) & set(one.never) for one in LABELS.values())


def test_first_findings_of_real_logs_are_what_an_expert_says(shared_logs: Path) -> None:
    found = {name: judged(find_verdict(diagnosis_of_log(name)), LABELS[name]) for name in LOGS}
    assert {name: one.wrong for name, one in found.items() if one.wrong} == {}
    not_right = {name: one.said for name, one in found.items() if not one.right}
    assert len(LOGS) - len(not_right) >= RIGHT, not_right


@pytest.mark.parametrize("name", EXAMPLES)
def test_first_finding_of_an_example_is_what_an_expert_says(name: str) -> None:
    found = judged(find_verdict(iqcar.diagnose(iqcar.read(REPO / "examples" / name))), LABELS[name])
    assert found.right, found
    assert not found.wrong
