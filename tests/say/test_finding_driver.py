"""What is said of queries that wait for their driver, and what helps."""

from __future__ import annotations

import pytest

import iqcar
from iqcar.enums import FindingKind
from iqcar.say.finding_stages import driver_section
from iqcar.say.findings import find_findings
from tests.support.driver_tables import queries_of

RUN = [(0, 35_000, [(12_000, [(0, 10_000)]), (23_000, [(0, 12_000)])])]


@pytest.mark.parametrize(
    ("metrics", "phases", "said", "helps"),
    [
        (
            [("metadata time", 8_000.0), ("number of files read", 1_200.0)],
            [],
            "12.0 s before its first stage (listing 1,200 files 8.0 s, not recorded 4.0 s).",
            "fewer and larger files",
        ),
        (
            [],
            [("planning", 1_000, 11_000)],
            "12.0 s before its first stage (planning 11.0 s).",
            "Make the plan smaller",
        ),
        (
            [],
            [("analysis", -9_000, 9_000)],
            "12.0 s before its first stage. It was planned for 9.0 s more before that run.",
            "Look at what the driver does there: planning",
        ),
        ([], [], "12.0 s before its first stage.", "Look at what the driver does there: planning"),
    ],
)
def test_a_finding_says_when_and_for_what(metrics, phases, said: str, helps: str) -> None:
    found = iqcar.diagnose(queries_of(RUN, metrics, phases=phases))
    (one,) = (one for one in find_findings(found) if one.kind is FindingKind.DRIVER)
    assert one.sentence.startswith("37 % of ")
    assert f"passes in the driver: {said}" in one.sentence
    assert one.sentence.endswith("More executors do not help.")
    assert helps in one.action
    assert one.section == driver_section(found, 5).key


def test_the_section_shows_what_is_recorded_and_what_is_not() -> None:
    phases = [("planning", 1_000, 2_000), ("listeners", 35_000, 4_000)]
    found = iqcar.diagnose(queries_of(RUN, [("metadata time", 500.0)], phases=phases))
    section = driver_section(found, 5)
    ((_, spent, share, before, between, after, early, did, evidence),) = section.rows
    assert (spent, before, between, after, early) == (13_000, 12_000, 1_000, 0, 0)
    assert share == 13 / 35
    assert did == {"not recorded": 10_500, "planning": 2_000, "listing files": 500}
    assert evidence == "estimated, reported, measured"
    assert any("up to 4.0 s late" in note for note in section.notes)
    plain = driver_section(iqcar.diagnose(queries_of(RUN)), 5)
    assert plain.rows[0][6] is None
    assert not plain.notes
