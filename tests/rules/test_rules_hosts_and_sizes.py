"""Advice about hosts that are slow across jobs, and about tasks too small or too large."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import iqcar
from iqcar.causes.stragglers.straggler_result import STRAGGLER_CAUSES, STRAGGLER_SOURCES, STRAGGLERS
from iqcar.pipeline import diagnose, stragglers_of
from iqcar.rules.compile_pools import load_rules_file
from iqcar.rules.propose_rules import LARGE_BYTES, MANY_TASKS, large_tasks, small_tasks
from iqcar.rules.straggler_delays import LEAST_TASKS, host_ratios, slow_hosts
from iqcar_lab.clusters.event_log import SyntheticLog
from tests.causes.stragglers.test_straggler_blame import rows
from tests.support.advised_log import advised_log, stage_of
from tests.support.command import iqcar as command

HOSTS = ("host-a", "host-b", "host-c")


def hosts_log(
    slower: dict[int, float], stages: int = 6, seed: int = 0, hosts: tuple[str, ...] = HOSTS
) -> SyntheticLog:
    """Stages of eight tasks on each of three hosts; the second is slower in some of them."""
    rng = np.random.default_rng(seed)
    log = SyntheticLog("app-1", "3.5.1").app("hosts", 1000).environment()
    for number, host in enumerate(hosts):
        log.executor(str(number), host, 8, 1000)
    at = 1000.0
    for stage in range(stages):
        tasks = []
        for index in range(24):
            lasts = 2000 * rng.uniform(0.95, 1.05)
            if index % 3 == 1:
                lasts *= slower.get(stage, 1.0)
            tasks.append((at, at + int(lasts), 10_000))
        stage_of(log, stage, f"q{stage} {hosts[1]}", at, tasks, hosts)
        at = max(finish for _, finish, _ in tasks) + 100
    return log.end(at)


def read(log: SyntheticLog, folder: Path):
    return iqcar.read(log.write(folder / "app-1"))


def naive_ratios(tasks: list[tuple[int, int, int]]) -> list[tuple[int, int, float]]:
    """Stage, host, and the median duration there over that elsewhere, as the words say."""
    found = []
    for stage, host in sorted({(stage, host) for stage, host, _ in tasks}):
        there = [lasted for s, h, lasted in tasks if s == stage and h == host]
        elsewhere = [lasted for s, h, lasted in tasks if s == stage and h != host]
        if min(len(there), len(elsewhere)) >= LEAST_TASKS:
            found.append((stage, host, float(np.median(there) / np.median(elsewhere))))
    return found


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(1, 6)), max_size=60))
def test_a_host_is_compared_with_the_median_of_the_same_stages_elsewhere(
    tasks: list[tuple[int, int, int]],
) -> None:
    columns = np.array(tasks, np.int64).reshape(-1, 3).T
    frame = pd.DataFrame(dict(zip(("stage", "host", "lasted"), columns, strict=True)))
    found = host_ratios(frame)
    assert list(found.itertuples(index=False, name=None)) == naive_ratios(tasks)


def test_a_host_slow_across_jobs_is_advised_against_by_name(tmp_path: Path) -> None:
    tables = read(hosts_log(dict.fromkeys(range(6), 2.0)), tmp_path)
    (slow,) = slow_hosts(tables, stragglers_of(tables))
    assert tables.hosts["host"].iloc[slow.host] == "host-b"
    assert (slow.stages, slow.slower, slow.jobs) == (6, 6, 6)
    assert slow.ratio == pytest.approx(2.0, rel=0.05)
    (rule,) = (rule for rule in diagnose(tables).rules if rule.is_advice)
    assert (rule.kind, rule.host) == ("exclude-host", "host-b")
    assert "on the host host-b" in rule.reason
    assert "took 2.0 times as long as those of the same stages elsewhere, in 6 of 6" in rule.reason
    assert "Look at the host host-b" in rule.advice
    settings = {one["name"]: one["value"] for one in rule.settings}
    assert settings["spark.yarn.exclude.nodes"] == "host-b"
    assert settings["spark.excludeOnFailure.enabled"] == "true"
    assert "spark.blacklist.enabled" not in settings


@pytest.mark.parametrize(
    ("slower", "stages"),
    [
        ({}, 6),
        (dict.fromkeys(range(6), 1.15), 6),  # a little slower, as machines are
        ({0: 3.0, 1: 3.0}, 6),  # in a third of the stages
        (dict.fromkeys(range(3), 3.0), 3),  # too few to tell
    ],
)
def test_a_host_that_is_not_slow_across_stages_is_not_advised_against(
    slower: dict[int, float], stages: int, tmp_path: Path
) -> None:
    tables = read(hosts_log(slower, stages), tmp_path)
    assert slow_hosts(tables, stragglers_of(tables)) == []
    assert not any(rule.kind == "exclude-host" for rule in diagnose(tables).rules)


def test_a_host_that_queries_keep_busy_is_busy_and_not_slow(tmp_path: Path) -> None:
    tables = read(hosts_log(dict.fromkeys(range(6), 2.0)), tmp_path)
    found = stragglers_of(tables)
    host = int(np.flatnonzero(tables.hosts["host"] == "host-b")[0])
    blamed = type(found)(**{**vars(found), 
        "stragglers": rows(STRAGGLERS, {"host": host, "delay_ms": 2000.0, "causes": 1}),
        "causes": rows(STRAGGLER_CAUSES, {"straggler": 0, "cause": "host-cpu"}),
        "sources": rows(
            STRAGGLER_SOURCES,
            {"cause": 0, "kind": "query", "query": 0, "share": 0.8},
            {"cause": 0, "kind": "unattributed", "query": -1, "share": 0.2},
        )
    })  # fmt: skip
    assert slow_hosts(tables, blamed) == []


def test_advice_of_several_kinds_comes_together(tmp_path: Path) -> None:
    logs = [advised_log(), hosts_log(dict.fromkeys(range(6), 2.0)), small_log(10, 30)]
    for number, log in enumerate(logs):
        log.write(tmp_path / f"app-{number}")
    rules = diagnose(iqcar.read([tmp_path])).rules
    assert {"exclude-host", "fewer-tasks", "split-shuffle"} <= {rule.kind for rule in rules}


def small_log(run: float, sent: float, tasks: int = 150) -> SyntheticLog:
    """One query of short tasks, each of which takes a while to be started."""
    log = SyntheticLog("app-1", "3.5.1").app("small", 1000).environment()
    log.executor("1", "host-a", 1, 1000)
    lasts = run + sent
    listed = [(1000 + n * lasts, 1000 + (n + 1) * lasts, 100) for n in range(tasks)]
    stage_of(log, 0, "tiny", 1000, listed, Executor_Run_Time=int(run))
    return log.end(1000 + tasks * lasts + 50)


def test_tasks_that_take_longer_to_start_than_to_run_are_advised_against(tmp_path: Path) -> None:
    tables = read(small_log(10, 30), tmp_path)
    (stage,) = small_tasks(tables).to_dict("records")
    assert (stage["tasks"], stage["run_ms"], stage["start_ms"]) == (150, 10.0, 4500.0)
    assert stage["held_ms"] == pytest.approx(4500.0)
    (rule,) = (rule for rule in diagnose(tables).rules if rule.is_advice)
    assert (rule.kind, rule.rule_value, rule.expected) == ("fewer-tasks", 4500.0, None)
    assert rule.reason == (
        "150 tasks in 1 stage of tiny ran 10 ms each (median) and took 4.5 s of slots to be "
        "started and ended, about 4.5 s (75 %) of the 6.0 s it ran."
    )


@pytest.mark.parametrize(("run", "sent", "tasks"), [(60, 60, 150), (40, 30, 150), (10, 30, 90)])
def test_tasks_that_work_or_are_few_are_not(run, sent, tasks, tmp_path: Path) -> None:
    assert not len(small_tasks(read(small_log(run, sent, tasks), tmp_path)))


def test_as_many_tasks_as_matter_are_enough(tmp_path: Path) -> None:
    (stage,) = small_tasks(read(small_log(10, 30, MANY_TASKS), tmp_path)).to_dict("records")
    assert stage["tasks"] == MANY_TASKS


def test_tasks_whose_stage_is_not_known_are_no_evidence(tmp_path: Path) -> None:
    log = SyntheticLog("app-1", "3.5.1").app("damaged", 1000)
    for task in range(3):
        log.task(task, -1)
    tables = read(log.end(), tmp_path)
    assert (len(tables.tasks), len(tables.stages)) == (3, 0)
    assert not len(small_tasks(tables)) and not len(large_tasks(tables, {0: 8}))


def large_log(read: int, other: int = 0) -> SyntheticLog:
    """Eight slots: two tasks of ten seconds, beside `other` tasks of another query."""
    log = SyntheticLog("app-1", "3.5.1").app("large", 1000).environment()
    log.executor("1", "host-a", 8, 1000)
    stage_of(log, 0, "wide", 1000, [(1000, 11_000, read)] * 2)
    if other:
        stage_of(log, 1, "beside", 1000, [(1000, 11_000, 1000)] * other)
    return log.end(11_500)


def test_large_tasks_beside_idle_slots_are_advised_against(tmp_path: Path) -> None:
    tables = read(large_log(int(LARGE_BYTES)), tmp_path)
    (rule,) = (rule for rule in diagnose(tables).rules if rule.is_advice)
    assert (rule.kind, rule.rule_value) == ("more-tasks", 7500.0)
    assert rule.reason == (
        "2 tasks in 1 stage of wide read 256 MB each (median) while most slots had nothing to do "
        "(2.0 of 8 busy in stage 0.0 collect at App.scala:0): on all of them they would have "
        "taken less, about 7.5 s (75 %) of the 10.0 s it ran."
    )


@pytest.mark.parametrize(("share", "other"), [(0.9, 0), (1.0, 3), (1.0, 6)])
def test_tasks_that_are_not_large_or_whose_neighbours_are_busy_are_not(
    share: float, other: int, tmp_path: Path
) -> None:
    tables = read(large_log(int(share * LARGE_BYTES), other), tmp_path)
    assert not len(large_tasks(tables, {0: 8}))
    assert not len(large_tasks(tables, {}))


def test_hostile_names_cannot_drive_the_terminal_or_fill_in_texts(tmp_path: Path) -> None:
    hostile = "h\x1b[31m\x07\u202e[bold]$host"
    log = hosts_log(dict.fromkeys(range(6), 2.0), hosts=("host-a", hostile, "host-c"))
    path = log.write(tmp_path / "app-1")
    done = command("analyze", path, "--full", "--rules", tmp_path / "rules.json")
    assert done.returncode == 0, done.stderr
    assert "exclude.nodes" in done.stdout and "[bold]$host" in done.stdout
    assert not {"\x1b", "\x07", "\u202e"} & set(done.stdout)
    (rule,) = (rule for rule in load_rules_file(tmp_path / "rules.json").rules if rule.is_advice)
    assert rule.host == hostile
    # Filled in once: what the name holds is no placeholder.
    assert rule.advice.count("$host") == 1
