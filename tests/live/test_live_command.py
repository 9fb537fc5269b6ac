"""`iqcar live`: what it prints, how it ends, and what it says of bad input."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import jsonschema
import pytest

from iqcar.diagnosis import Settings
from iqcar.live.watch import Watch
from iqcar.show.json.live import live_schema
from tests.live.test_window import queue
from tests.support.command import Forked, iqcar
from tests.support.contended_log import contended_log


def test_a_line_of_json_fits_its_schema(tmp_path: Path) -> None:
    log = queue().write(tmp_path / "local-1.inprogress")
    done = iqcar("live", log, "--json", "--once")
    assert done.returncode == 0
    line = json.loads(done.stdout)
    jsonschema.validate(line, json.loads(live_schema()))
    assert line["state"] == "running"
    (victim,) = line["victims"]
    assert (victim["name"], victim["waiting"], victim["running"]) == ("report", 2, True)
    assert line["aggressors"][0]["slots"] == 2.0
    assert line["hosts"][0]["name"] == "no host yet"
    assert victim["blamed"][0]["by_host"] == {"no host yet": 4000.0}


def test_the_view_says_who_waits_for_whom(tmp_path: Path) -> None:
    done = iqcar("live", queue().write(tmp_path / "local-1.inprogress"), "--once")
    assert "2 of 4 slots used" in done.stdout
    assert "2 tasks wait to be launched" in done.stdout
    assert "report (sql-1) lost 4.0 s, 2 tasks waiting" in done.stdout
    assert "etl (sql-0)" in done.stdout


def test_the_view_lists_the_rules_in_force(tmp_path: Path) -> None:
    log = queue()
    slow = {"kind": "pool", "rule": "CAP-1", "name": "slow", "after": "FIFO cap 2 strict"}
    gone = {"kind": "pool", "rule": "AGG-1", "name": "gone", "after": "FIFO weight 3"}
    for time, changes in ((2000, [slow, gone]), (3000, [{**gone, "rule": "", "after": ""}])):
        event = {"timeMs": time, "outcome": "accepted", "reason": "", "changes": changes}
        log.event("org.iqcar.spark.IqcarEventRules", event)
    done = iqcar("live", log.write(tmp_path / "local-1.inprogress"), "--once")
    _, in_force = done.stdout.split("Rules in force")
    assert "CAP-1" in in_force
    assert "pool slow: FIFO cap 2 strict" in in_force
    assert "gone" not in in_force


def test_the_command_ends_with_the_application(tmp_path: Path) -> None:
    done = iqcar("live", contended_log().write(tmp_path / "local-1"), "--json")
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == "iqcar: the application has ended\n"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"hello\nto all the world\n", "not a Spark event log"),
        (b"", "no event was written yet"),
        (None, "it does not exist"),
    ],
)
def test_bad_input_is_one_line(tmp_path: Path, content: bytes | None, said: str) -> None:
    log = tmp_path / "local-1.inprogress"
    if content is not None:
        log.write_bytes(content)
    done = iqcar("live", log, "--once")
    assert done.returncode == 1
    assert said in done.stderr and len(done.stderr.splitlines()) == 1


def test_another_application_in_a_log_starts_anew(tmp_path: Path) -> None:
    log = tmp_path / "local-1.inprogress"
    log.write_bytes(contended_log("app-1").bytes() + contended_log("app-2", 90_000).bytes())
    watch = Watch(str(log), Settings(), 1e9)
    watch.read()
    found = watch.window()
    assert found is not None
    assert found.tables.applications["application_id"].tolist() == ["app-2"]
    assert any("another application begins here (app-2)" in note for note in found.notes)
    assert len(found.tables.tasks) == 4


def test_now_moves_on_only_while_the_log_is_quiet(tmp_path: Path) -> None:
    time_s = [100.0]
    log = queue().write(tmp_path / "local-1.inprogress")
    watch = Watch(str(log), Settings(), 1e9, clock=lambda: time_s[0])
    ends = []
    for _ in range(2):
        watch.read()
        found = watch.window()
        assert found is not None
        ends.append(found.end_ms)
        time_s[0] += 7.0
    assert ends == [6000.0, 13_000.0]
    assert found.newest_ms == 6000.0


def test_an_event_from_the_far_future_does_not_move_the_window(tmp_path: Path) -> None:
    log = queue().write(tmp_path / "local-1.inprogress")
    watch = Watch(str(log), Settings(), 1e9)
    watch.read()
    queue().executor("3", "host-b", 1, 4e12).write(log)
    watch.read()
    found = watch.window()
    assert found is not None and found.end_ms == 6000.0


def test_ctrl_c_ends_it_without_a_word(tmp_path: Path) -> None:
    log = queue().write(tmp_path / "local-1.inprogress")
    process = Forked("live", log, "--json", "--every", "50ms")
    assert process.stdout is not None and process.stderr is not None
    assert json.loads(process.stdout.readline())["state"] == "running"
    process.send_signal(signal.SIGINT)
    process.stdout.read()  # else what it writes at its end may not fit into the pipe
    assert process.wait(60) == 130
    assert process.stderr.read() == ""


def test_a_log_that_is_gone_is_partial(tmp_path: Path) -> None:
    log = queue().write(tmp_path / "local-1.inprogress")
    process = Forked("live", log, "--json", "--every", "20ms")
    assert process.stdout is not None and process.stderr is not None
    process.stdout.readline()
    log.unlink()
    lines = process.stdout.read().splitlines()
    assert process.wait(60) == 3
    assert process.stderr.read() == "iqcar: the log is gone\n"
    assert json.loads(lines[-1])["state"] == "gone"


def test_a_log_that_is_quiet_for_long_is_said_to_have_no_end(tmp_path: Path) -> None:
    log = contended_log("app-1", 1.6e12)
    log.lines.pop()
    wrong = {"launch": 1.6e12 - 1918 * 86_400_000.0, "finish": 1.6e12 - 1900 * 86_400_000.0}
    log.task(99, stage=1, index=7, **wrong)
    done = iqcar("live", log.write(tmp_path / "local-1.inprogress"), "--once")
    head = done.stdout.splitlines()[0]
    assert "no end since 2020-09-13 12:26 UTC  the last 11.0 s" in head
    assert "days" not in done.stdout and "−" not in head
