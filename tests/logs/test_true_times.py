"""Times that make no sense stretch nothing: an end that is missing is the last event."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from iqcar.logs import read_logs
from iqcar.logs.find.locate import EventLog, locate
from iqcar.logs.log_summary import peek
from iqcar.model.queries.gaps import fold, gaps_of
from iqcar.pipeline import diagnose, read
from iqcar.say.input_sections import timeline_sentence
from iqcar.show.pictures.hosts import hosts
from iqcar.show.pictures.timeline_payload import timeline_payload
from iqcar.tables import Tables, texts
from iqcar_lab.clusters.event_log import SyntheticLog, stage_info
from tests.support.contended_log import contended_log

DAY_MS = 86_400_000.0
START = 1_700_000_000_000.0


def tables_of(log: SyntheticLog, folder: Path) -> Tables:
    return read_logs([log.write(folder / "app-1")], processes=1)


def with_task(launch: float, finish: float) -> SyntheticLog:
    """The usual log, with one more task of a stage that was submitted at START + 1 s."""
    log = contended_log("app-1", START)
    end = log.lines.pop()
    log.task(99, stage=1, launch=launch, finish=finish, host="host-a", index=7)
    return log.raw(end)


@pytest.mark.parametrize(
    "launch", [START - 1918 * DAY_MS, START - DAY_MS, START + 100 * DAY_MS, 1.0, START / 1e3]
)
def test_a_task_outside_its_stage_stretches_nothing_and_is_counted(
    launch: float, tmp_path: Path
) -> None:
    tables = tables_of(with_task(launch, launch + 10), tmp_path)
    (app,) = tables.applications.itertuples()
    assert (app.start_ms, app.end_ms) == (START, START + 11_000)
    launches = tables.tasks["launch_ms"]
    assert launches.min() >= START and tables.tasks["finish_ms"].max() <= START + 11_000
    assert "1 task with an impossible start or end" in texts(tables.inputs, "message")[0]
    queries = read([str(tmp_path / "app-1")]).queries
    assert queries["duration_ms"].tolist() == [10_000.0, 10_000.0]


def test_a_driver_s_clock_that_is_set_back_a_little_harms_no_task(tmp_path: Path) -> None:
    tables = tables_of(with_task(START + 500, START + 600), tmp_path)  # half a second early
    assert START + 500 in tables.tasks["launch_ms"].tolist()
    assert texts(tables.inputs, "message") == [""]


def test_an_application_without_an_end_ended_with_its_last_event(tmp_path: Path) -> None:
    log = contended_log("app-1", START)
    log.lines.pop()
    tables = tables_of(log, tmp_path)
    assert tables.applications["end_ms"].tolist() == [START + 11_000]
    assert not tables.applications["ended"].any()
    (found,) = locate([tmp_path / "app-1"])
    assert isinstance(found, EventLog)
    seen = peek(found)
    assert (seen.start_ms, seen.last_ms) == (START, START + 11_000)
    assert seen.end_ms != seen.end_ms


@pytest.mark.parametrize("start", [START + 2000 * DAY_MS, 1.0e14])
def test_an_application_s_start_after_all_its_events_is_not_believed(
    start: float, tmp_path: Path
) -> None:
    log = contended_log("app-1", START)
    log.lines[1] = SyntheticLog(version=None).app("contended", start).lines[0]
    for ends in (True, False):
        if not ends:
            log.lines.pop()
        (app,) = tables_of(log, tmp_path).applications.itertuples()
        assert (app.start_ms, app.end_ms) == (START, START + 11_000)


def test_an_end_before_the_start_is_none(tmp_path: Path) -> None:
    log = contended_log("app-1", START)
    log.lines.pop()
    log.end(5.0)
    tables = tables_of(log, tmp_path)
    assert tables.applications["end_ms"].tolist() == [START + 11_000]
    (found,) = locate([tmp_path / "app-1"])
    assert isinstance(found, EventLog)
    assert peek(found).end_ms != peek(found).end_ms


def test_a_stage_whose_own_times_make_no_sense_costs_no_task(tmp_path: Path) -> None:
    log = SyntheticLog("app-1").app("app", START).executor("1", "h1", 4, START)
    info = stage_info(0, submission=START + 50 * DAY_MS)
    log.job(0, [info], START).stage(info).task(0, launch=START + 10, finish=START + 20)
    log.stage_end(info, START + 30).job_end(0, START + 30).end(START + 40)
    tables = tables_of(log, tmp_path)
    assert tables.tasks["launch_ms"].tolist() == [START + 10]


def moved(log: SyntheticLog, at: int, old: float, new: float) -> SyntheticLog:
    """The log with one time of one event replaced."""
    before, after = json.dumps(old).encode(), json.dumps(new).encode()
    assert before in log.lines[at]
    log.lines[at] = log.lines[at].replace(before, after)
    return log


@pytest.mark.parametrize("by", [40 * DAY_MS, -40 * DAY_MS, 4000 * DAY_MS, -4000 * DAY_MS])
@pytest.mark.parametrize("ends", [True, False])
def test_one_damaged_end_of_a_job_stretches_nothing_and_is_told(
    by: float, ends: bool, tmp_path: Path
) -> None:
    log = contended_log("app-1", START)
    at = max(row for row, line in enumerate(log.lines) if b"ListenerJobEnd" in line)
    old = json.loads(log.lines[at])["Completion Time"]
    moved(log, at, old, old + by)
    if not ends:
        if by == 40 * DAY_MS:
            return  # without an end, who knows
        log.lines.pop()
    tables = tables_of(log, tmp_path)
    (app,) = tables.applications.itertuples()
    assert (app.start_ms, app.end_ms) == (START, START + 11_000)
    assert "1 time outside the run left out" in texts(tables.inputs, "message")[0]
    assert read([str(tmp_path / "app-1")]).queries["duration_ms"].max() <= 11_000


def test_a_task_whose_end_is_days_after_what_it_ran_ends_when_it_had_run(tmp_path: Path) -> None:
    log = contended_log("app-1", START)
    log.lines.pop()
    log.task(99, stage=1, launch=START + 2000, finish=START + 3 * DAY_MS, host="host-a", index=7)
    tables = tables_of(log, tmp_path)
    assert tables.applications["end_ms"].tolist() == [START + 11_000]
    assert "1 task with an impossible start or end" in texts(tables.inputs, "message")[0]


def test_a_clock_that_was_set_after_the_start_moves_the_start(tmp_path: Path) -> None:
    log = contended_log("app-1", START)
    log.lines[1] = SyntheticLog(version=None).app("contended", 86_400_000.0).lines[0]
    tables = tables_of(log, tmp_path)
    assert tables.applications["start_ms"].iloc[0] >= START
    assert "1 time outside the run left out" in texts(tables.inputs, "message")[0]


def test_since_when_a_log_has_no_end_is_told(tmp_path: Path) -> None:
    log = contended_log("app-1", START)
    log.lines.pop()
    tables = tables_of(log, tmp_path)
    assert "no end of the application since 2023-11-14 22:13" in texts(tables.inputs, "message")[0]
    (found,) = locate([tmp_path / "app-1"])
    assert isinstance(found, EventLog)
    assert peek(found).message == "no end since 2023-11-14"


def test_logs_years_apart_are_drawn_with_a_broken_axis(tmp_path: Path) -> None:
    for name, start in (("app-1", START), ("app-2", START + 1000 * DAY_MS)):
        contended_log(name, start).write(tmp_path / name)
    found = diagnose(read([str(tmp_path)]))
    (gap,) = gaps_of(found.tables)
    assert gap.left_out_ms == pytest.approx(1000 * DAY_MS, rel=1e-3)
    payload = timeline_payload(found.tables, found.waits, found.graph)
    assert payload["ticks"] * payload["tick_ms"] < 60_000
    (told,) = payload["gaps"]
    assert told["ms"] == gap.left_out_ms
    again = payload["origin_ms"] + told["at"] * payload["tick_ms"] + told["ms"]
    assert again == pytest.approx(gap.end_ms, abs=2)
    sentence = timeline_sentence(found.tables)
    assert "in 2 times up to 1000.0 days apart" in sentence and "within 2" in sentence
    alone = diagnose(read([str(tmp_path / "app-1")]))
    assert gaps_of(alone.tables) == [] and fold(alone.tables, []) is alone.tables


def test_hosts_of_logs_years_apart_are_drawn_with_a_broken_axis(tmp_path: Path) -> None:
    for name, start in (("app-1", START), ("app-2", START + 1000 * DAY_MS)):
        contended_log(name, start).write(tmp_path / name)
    drawn = hosts(read([str(tmp_path)]))
    axis = drawn.layout["xaxis"] if hasattr(drawn, "layout") else drawn["layout"]["xaxis"]
    assert list(axis["ticktext"]) == ["2023-11-14", "2026-08-10"]
    first, second = axis["tickvals"]
    assert second - first < 60_000
