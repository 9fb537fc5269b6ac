"""Which application is analysed next without being asked."""

from __future__ import annotations

from dataclasses import replace

from iqcar.apps.serve.applications import MS_PER_HOUR, Application, NewLogs
from iqcar.enums import InputStatus
from iqcar.logs.find.log_parts import EventLog
from iqcar.logs.log_summary import Peek

NOW = 100 * MS_PER_HOUR
LOG = EventLog("log", ())


def ended(key: str, hours_ago: float, status: InputStatus = InputStatus.COMPLETE) -> Application:
    end = NOW - hours_ago * MS_PER_HOUR
    return Application(key, key, LOG, ((key, "", 1, 1),), Peek(status=status, end_ms=end))


def test_the_one_that_ended_last_comes_first_and_each_once() -> None:
    new = NewLogs(24)
    listed = [ended("a", 3), ended("b", 1), ended("c", 2), ended("old", 25)]
    chosen = [new.choose(listed, NOW) for _ in range(4)]
    assert [one.key if one else None for one in chosen] == ["b", "c", "a", None]


def test_what_runs_or_cannot_be_read_or_has_a_result_is_left_alone() -> None:
    listed = [
        ended("runs", 0, InputStatus.IN_PROGRESS),
        ended("part", 0, InputStatus.TRUNCATED),
        ended("failed", 0, InputStatus.FAILED),
        replace(ended("unread", 0), peek=None),
        replace(ended("gone", 0), log=None),
        replace(ended("done", 0), summary_is_current=True),
    ]
    assert NewLogs(24).choose(listed, NOW) is None


def test_a_log_that_changed_is_chosen_again() -> None:
    new = NewLogs(24)
    first = ended("a", 1)
    assert new.choose([first], NOW) is first
    assert new.choose([first], NOW) is None
    changed = replace(first, identity=(("a", "", 2, 2),))
    assert new.choose([changed], NOW) is changed
