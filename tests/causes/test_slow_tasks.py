"""Tests: why tasks took long is told apart by what the log has of them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import iqcar
from iqcar.causes.slow_tasks import CAUSES, slow_tasks
from iqcar.diagnosis import Diagnosis
from iqcar.enums import FindingKind
from iqcar.say.findings import find_findings
from iqcar_lab.clusters.event_log import SyntheticLog, stage_info, task_metrics

START = 1_700_000_000_000
MB = 2**20


@dataclass(frozen=True)
class Task:
    """A task by what it did, in ms, bytes and rows; what is left of ``ms`` nobody recorded."""

    ms: int = 2_000
    cpu: int = 1_900
    megabytes: float = 20.0
    rows: int = 50_000
    deserialize: int = 10
    gc: int = 0
    executor: str = "1"
    after: int = 0
    locality: str = "PROCESS_LOCAL"

    def metrics(self) -> dict[str, object]:
        """The same as Spark writes it."""
        return task_metrics(
            Executor_Run_Time=self.ms - self.deserialize,
            Executor_CPU_Time=self.cpu * 1_000_000,
            Executor_Deserialize_Time=self.deserialize,
            Executor_Deserialize_CPU_Time=self.deserialize * 1_000_000,
            JVM_GC_Time=self.gc,
            Shuffle_Read_Metrics={},
            Shuffle_Write_Metrics={},
            Input_Metrics={"Bytes Read": int(self.megabytes * MB), "Records Read": self.rows},
        )


USUAL = Task(after=60_000)
"""A task of executors that have run for a minute."""


def made(
    path: Path, tasks: Sequence[Task], slots: int = 4, ended: int | None = None, **set_to: str
) -> Diagnosis:
    """A query whose first stage warms its executors up, and whose second has these tasks."""
    log = SyntheticLog("app-1").environment(**set_to).app(start=START - 5_000)
    for executor in sorted({task.executor for task in tasks} | {"1"}):
        log.executor(executor, f"host-{executor}", cores=slots)
    ids = range(len(tasks) + slots)
    warm = stage_info(0, submission=START, **{"Number of Tasks": slots})
    begun = START + min(task.after for task in tasks)
    info = stage_info(1, submission=begun, **{"Number of Tasks": len(tasks), "Parent IDs": []})
    log.job(0, [warm, info], START, {}).stage(warm, {})
    for number in range(slots):
        log.task(ids[number], launch=START, finish=START + 3_000, host="host-1", executor="1",
                 index=number, metrics=Task(ms=3_000, cpu=2_800).metrics())  # fmt: skip
    log.stage_end(warm, START + 3_000).stage(info, {})
    free = dict.fromkeys([(task.executor, slot) for task in tasks for slot in range(slots)], 0)
    for number, task in enumerate(tasks):
        slot = min((key for key in free if key[0] == task.executor), key=lambda key: free[key])
        launch = max(free[slot], START + task.after)
        free[slot] = launch + task.ms
        if ended is None or number < ended:
            log.task(ids[slots + number], stage=1, launch=launch, finish=free[slot],
                     host=f"host-{task.executor}", executor=task.executor, index=number,
                     metrics=task.metrics(), more={}, Locality=task.locality)  # fmt: skip
    end = max(free.values())
    log.stage_end(info, end).job_end(0, end + 10).end(end + 20)
    return iqcar.diagnose(iqcar.read(log.write(path)))


LONG = replace(USUAL, ms=12_000)
LAST = {
    "data": replace(LONG, cpu=11_800, megabytes=120.0, rows=300_000),
    "cold": replace(LONG, deserialize=9_000, cpu=2_800, executor="2"),
    "gc": replace(LONG, gc=9_900, cpu=2_000),
    "outside": replace(LONG, cpu=100, megabytes=1.0),
    "computing": replace(LONG, cpu=11_800),
    "far": replace(LONG, cpu=1_900, megabytes=20_000.0 / 20, rows=50_000, locality="ANY"),
}
"""A last task by what it was slow for; what its stage's other tasks read, it read, too."""


@pytest.mark.parametrize("cause", LAST)
def test_a_long_task_is_put_down_to_what_it_did_more_of(cause: str, tmp_path: Path) -> None:
    usual = replace(USUAL, megabytes=LAST[cause].megabytes) if cause == "far" else USUAL
    found = made(tmp_path / "app-1", [*[usual] * 11, LAST[cause]])
    told = slow_tasks(found.tables, found.waits).loc[1]
    shares = {name: float(told[f"tail_{name}"]) for name in CAUSES}
    assert max(shares, key=lambda name: shares[name]) == cause
    assert shares[cause] > 0.7
    assert sum(shares.values()) <= 1.0 + 1e-9


@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        ("data", FindingKind.SKEW), ("cold", FindingKind.COLD), ("gc", FindingKind.GC),
        ("outside", FindingKind.OUTSIDE), ("far", FindingKind.LOCALITY), ("computing", None),
    ],
)  # fmt: skip
def test_the_first_finding_is_what_the_long_task_was_slow_for_and_skew_only_of_data(
    cause: str, kind: FindingKind | None, tmp_path: Path
) -> None:
    usual = replace(USUAL, megabytes=LAST[cause].megabytes) if cause == "far" else USUAL
    findings = find_findings(made(tmp_path / "app-1", [*[usual] * 11, LAST[cause]]))
    kinds = [one.kind for one in findings]
    assert kinds[:1] == ([kind] if kind else [])
    assert (FindingKind.SKEW in kinds) == (cause == "data")
    assert FindingKind.PARTITIONS not in kinds


@pytest.mark.parametrize(
    "task",
    [
        replace(USUAL, ms=20_000, cpu=300, megabytes=0.0, rows=0),
        replace(USUAL, ms=3_000, cpu=2_000, megabytes=0.0, rows=5, after=4_000),
    ],
    ids=["waits for something", "warms up"],
)
def test_tasks_that_do_not_divide_get_no_more_partitions(task: Task, tmp_path: Path) -> None:
    findings = find_findings(made(tmp_path / "app-1", [task], slots=8))
    assert FindingKind.PARTITIONS not in [one.kind for one in findings]


def test_long_tasks_of_much_data_get_more_partitions(tmp_path: Path) -> None:
    task = replace(USUAL, ms=20_000, cpu=19_000, megabytes=900.0)
    first = find_findings(made(tmp_path / "app-1", [task, task], slots=8))[0]
    assert first.kind is FindingKind.PARTITIONS
    assert "(2 → 16)" in first.action
    assert "spark.sql" not in first.action  # the stage is of RDDs


def test_many_short_tasks_of_hardly_any_data_are_tiny(tmp_path: Path) -> None:
    tasks = [replace(USUAL, ms=60, cpu=6, megabytes=0.001, rows=2)] * 2_000
    first = find_findings(made(tmp_path / "app-1", tasks))[0]
    assert first.kind is FindingKind.TINY_TASKS
    assert "(2000 → 4)" in first.action


def test_a_few_missing_ends_of_tasks_do_not_silence_what_is_left(tmp_path: Path) -> None:
    tasks = [replace(USUAL, ms=20_000, cpu=19_000, megabytes=900.0)] * 5
    whole = find_findings(made(tmp_path / "app-1", tasks, slots=16))
    few = find_findings(made(tmp_path / "app-2", tasks, slots=16, ended=4))
    assert [one.kind for one in whole] == [one.kind for one in few] == [FindingKind.PARTITIONS]
    assert "(5 → 32)" in few[0].action


def test_executors_that_were_asked_for_and_did_not_come_are_said_with_their_number(
    tmp_path: Path,
) -> None:
    tasks = [replace(USUAL, ms=5_000, cpu=4_500)] * 40
    found = made(tmp_path / "app-1", tasks, spark_master="yarn", spark_executor_instances="5")
    first = find_findings(found)[0]
    assert first.kind is FindingKind.NOT_GRANTED
    assert "It asked for 5 executors, and 1 came." in first.sentence
    assert "yarn queue -status" in first.action
    whole = find_findings(made(tmp_path / "app-2", tasks, spark_executor_instances="1"))
    assert FindingKind.NOT_GRANTED not in [one.kind for one in whole]


def test_a_full_executor_beside_an_empty_one_is_told_though_some_tasks_name_none(
    tmp_path: Path,
) -> None:
    """The one task on the other executor has it recorded; all others wait for the first."""
    here = [replace(USUAL, ms=2_000)] * 20
    found = made(tmp_path / "app-1", [*here, replace(USUAL, ms=1_000, executor="2")], slots=1)
    kinds = [one.kind for one in find_findings(found)]
    assert FindingKind.LOCALITY in kinds
    tasks = found.tables.tasks
    lost = tasks.assign(executor=tasks["executor"].where(tasks.index != 3, -1))
    unnamed = iqcar.diagnose(found.tables.with_(tasks=lost))
    assert FindingKind.LOCALITY in [one.kind for one in find_findings(unnamed)]


TASKS = st.builds(
    Task,
    ms=st.integers(600, 9_000), cpu=st.integers(0, 600), megabytes=st.floats(0, 300),
    rows=st.integers(0, 300_000), deserialize=st.integers(0, 300), gc=st.integers(0, 200),
    executor=st.sampled_from(["1", "2"]), after=st.just(60_000),
)  # fmt: skip


@given(tasks=st.lists(TASKS, min_size=2, max_size=9), seed=st.integers(0, 99))
def test_parts_sum_to_the_whole_and_the_order_of_tasks_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, tasks: list[Task], seed: int
) -> None:
    path = tmp_path_factory.mktemp("slow")
    found = made(path / "app-1", tasks, slots=16)
    told = slow_tasks(found.tables, found.waits)
    shares = told[[f"tail_{name}" for name in CAUSES]]
    assert (shares >= 0).all(axis=None)
    assert (shares.sum(axis=1) <= 1.0 + 1e-9).all()
    assert (told["cold"] <= told["ran"] + 1e-6).all()
    assert (told[["outside", "lock"]].sum(axis=1) <= told["ran"] + 1e-6).all()
    assert not told["tail_throttled"].any() and not told["tail_lock"].any()

    order = random.Random(seed).sample(range(len(found.tables.tasks)), len(found.tables.tasks))
    shuffled = found.tables.with_(tasks=found.tables.tasks.iloc[order].reset_index(drop=True))
    again = slow_tasks(shuffled, found.waits.iloc[order].reset_index(drop=True))
    last = told["last_lasted"].eq(again["last_lasted"])  # ties may be another task
    assert told.loc[last, "ran"].equals(again.loc[last, "ran"])
    assert told.loc[last, shares.columns].equals(again.loc[last, shares.columns]) or (
        told["usual_lasted"].ne(again["usual_lasted"]).any()
    )


@given(tasks=st.lists(TASKS, min_size=2, max_size=9))
def test_no_saving_is_more_than_what_was_spent(
    tmp_path_factory: pytest.TempPathFactory, tasks: list[Task]
) -> None:
    found = made(tmp_path_factory.mktemp("savings") / "app-1", tasks, slots=16)
    collected = float(found.tables.tasks["gc_ms"].sum())
    for one in find_findings(found):
        ran = float(found.tables.queries["duration_ms"].iloc[list(one.queries)].sum())
        assert 0 <= one.low_ms <= one.saves_ms <= one.high_ms <= ran + 1e-6
        if one.kind is FindingKind.GC:
            assert one.high_ms <= collected
