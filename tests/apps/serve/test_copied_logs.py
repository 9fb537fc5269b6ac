"""When a copy of a log was written says nothing of when its application ran."""

from __future__ import annotations

from pathlib import Path

import pytest

from iqcar.apps.serve.applications import Application, identity_of, neighbours_of
from iqcar.logs.log_summary import Peek
from tests.apps.serve.test_serve_list import application, only_log
from tests.support.contended_log import contended_log


def test_when_a_copy_was_written_is_not_when_its_application_ran(tmp_path: Path) -> None:
    log = only_log(contended_log("app-1", 1.6e12).write(tmp_path / "app-1"))
    seen = Peek(name="old", start_ms=1.6e12, hosts=frozenset("a"))  # its end was not looked at
    old = Application("old", "/logs/old", log, peek=seen, identity=identity_of(log))
    now = identity_of(log)[-1][3] / 1e6
    new = application(2, start_ms=now - 1000, end_ms=now + 1000, hosts=frozenset("a"))
    assert old.ran_until_ms is None
    assert neighbours_of(new, [old, new]) == []
    seen.start_ms = now - 60_000
    assert old.ran_until_ms == pytest.approx(now)
    assert [one.application for one in neighbours_of(new, [old, new])] == [old]
