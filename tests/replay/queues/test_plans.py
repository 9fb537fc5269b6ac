"""Plans for shared clusters: drawn from logs of simulated tenants, and held against the truth."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import iqcar
from iqcar.errors import IqcarError
from iqcar.replay.queues.cluster_replay import QueuePlan
from iqcar.replay.queues.queue_plan import (
    QueueProposal,
    QueueQuestion,
    content_of,
    propose_queues,
    queue_result,
)
from iqcar.rules.queue_files import PlanTarget, assumed_capacity_file, read_capacity_file
from iqcar.rules.rule import Outlook
from iqcar.show.json.queues import queues_schema, queues_to_json
from iqcar.show.terminal.layout import terminal
from iqcar.show.terminal.rules import print_queues
from iqcar_lab.clusters.event_log import SyntheticLog
from tests.support.naive_queues import NaiveCluster, NaiveQueue, NaiveRun, NaiveTenant
from tests.support.shared_cluster_logs import read

CORES = 12
TARGETS = [PlanTarget.YARN_CAPACITY, PlanTarget.YARN_FAIR]


def hog_and_others(seed: int) -> list[NaiveTenant]:
    """A tenant that takes the whole cluster for long, and two that come while it holds it."""
    rng = np.random.default_rng(seed)

    def durations(tasks: int, low: float, high: float) -> tuple[float, ...]:
        return tuple((rng.integers(1000 * low, 1000 * high, tasks) / 1000).tolist())

    hog = NaiveTenant(
        f"etl-{seed}", "batch", "default", 0.0, ((0.2, durations(120, 6, 9)),), most=12, idle=60.0
    )
    others = [
        NaiveTenant(
            f"report-{seed}-{n}",
            "ann",
            "default",
            float(rng.integers(8_000, 20_000)) / 1000,
            ((0.3, durations(12, 1, 3)), (0.4, durations(6, 1, 3))),
            most=4,
            idle=60.0,
        )
        for n in range(2)
    ]
    return [hog, *others]


def cluster_of(found: QueueProposal, plan: QueuePlan | None) -> NaiveCluster:
    """The simulated cluster with the queues of a plan, or as it was."""
    setup = plan.setup if plan else found.replays.setup
    whole = 1 if setup.fair else CORES
    return NaiveCluster(
        CORES,
        tuple(
            NaiveQueue(
                queue.path, queue.guaranteed * whole, queue.maximum * CORES, queue.user_factor,
                queue.user_least, queue.evenly,
            )
            for queue in setup.queues
        ),
        setup.fair,
    )  # fmt: skip


def simulated(found: QueueProposal, tenants: list[NaiveTenant], plan: QueuePlan) -> NaiveRun:
    """Run the tenants as a plan says."""
    moved = []
    for one in tenants:
        row = next(t for t in found.replays.tenants if t.name == one.name)
        moved.append(replace(one, queue=dict(plan.moves).get(row.app, found.queue_before(row))))
    return NaiveRun(cluster_of(found, plan), moved)


def recorded(tenants: list[NaiveTenant], fair: bool) -> NaiveRun:
    """The tenants in one queue, whose user may have the whole of it."""
    queue = NaiveQueue("default", 1.0 if fair else CORES, CORES, math.inf, evenly=fair)
    return NaiveRun(NaiveCluster(CORES, (queue,), fair), tenants)


@pytest.mark.long
@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_plans_that_say_helps_help_in_simulation(
    target: PlanTarget, seed: int, tmp_path: Path
) -> None:
    tenants = hog_and_others(seed)
    before = recorded(tenants, target is PlanTarget.YARN_FAIR)
    tables = read(before.logs(), tmp_path)
    found = propose_queues(tables, iqcar.diagnose(tables).graph, QueueQuestion(target, cores=CORES))
    assert np.nanmax(np.abs(found.errors)) < 0.02
    assert found.chosen is not None
    names = {key[2] for key in found.sides.victims}
    assert names == {one.name for one in tenants[1:]}
    after = simulated(found, tenants, found.chosen.draft.plan)
    old, new = before.durations(), after.durations()
    gain = sum(new[key] for key in old if key[0] in names) / sum(
        old[key] for key in old if key[0] in names
    )
    if found.chosen.expected.outlook == "helps":
        assert gain < 0.95
    predicted = dict(
        zip(tables.queries["name"], found.chosen.after.duration_ms / 1000, strict=True)
    )
    for (name, at), lasted in new.items():
        assert predicted[f"{name}-{at}"] == pytest.approx(lasted, rel=0.05, abs=0.2)


@pytest.fixture(scope="module")
def diagnosis(tmp_path_factory: pytest.TempPathFactory) -> iqcar.Diagnosis:
    logs = recorded(hog_and_others(4), False).logs()
    return iqcar.diagnose(read(logs, tmp_path_factory.mktemp("logs")))


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_a_plan_is_said_in_text_and_json(
    target: PlanTarget, diagnosis: iqcar.Diagnosis, capsys: pytest.CaptureFixture[str]
) -> None:
    found = propose_queues(diagnosis.tables, diagnosis.graph, QueueQuestion(target, cores=CORES))
    result = queue_result(found, all_rules=True)
    said = json.loads(queues_to_json(result))
    jsonschema.validate(said, json.loads(queues_schema()))
    assert said["self_check"]["queries"] == 5
    assert {one["role"] for one in said["applications"]} == {"victim", "holder"}
    print_queues(result, terminal())
    shown = capsys.readouterr().out
    assert shown.startswith(("This plan", "Do not apply"))
    assert "Self-check: the replay of the run as it was is off by" in shown
    assert content_of(found)


def test_what_would_harm_is_written_only_if_asked_for(
    diagnosis: iqcar.Diagnosis, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = QueueQuestion(PlanTarget.YARN_CAPACITY, cores=CORES)
    found = propose_queues(diagnosis.tables, diagnosis.graph, asked)
    assert found.chosen is not None
    harms = replace(found.chosen.expected, outlook=Outlook.HARMS.value)
    found = replace(found, chosen=replace(found.chosen, expected=harms))
    result = queue_result(found)
    assert (result.written, result.diff, result.how_to) == (False, "", [])
    print_queues(result, terminal())
    print_queues(queue_result(found, all_rules=True), terminal())
    shown = capsys.readouterr().out
    assert shown.startswith("No plan is written, each would harm")
    assert "\nDo not apply this plan" in shown


def test_a_given_file_is_edited_and_other_queues_keep_what_they_had(
    diagnosis: iqcar.Diagnosis,
) -> None:
    shares = {"default": 70.0, "other": 30.0}
    current = assumed_capacity_file(shares, "x").edited({"root.default.user-limit-factor": "5"})
    asked = QueueQuestion(PlanTarget.YARN_CAPACITY, (current.content, "now.xml"), CORES)
    found = propose_queues(diagnosis.tables, diagnosis.graph, asked)
    assert found.chosen is not None
    after = read_capacity_file(content_of(found), "after.xml")
    assert after.capacity("root.other") == 30
    of_other = {k: v for k, v in after.properties.items() if ".root.other." in k}
    assert of_other == {k: v for k, v in current.properties.items() if ".root.other." in k}
    result = queue_result(found, all_rules=True)
    gone = [line for line in result.diff.splitlines() if line.startswith("-") and "value" in line]
    assert all("default" in line or "70" in line or "5" in line for line in gone)


def test_shares_of_many_digits_still_sum_to_the_whole(diagnosis: iqcar.Diagnosis) -> None:
    thirds = {"default": 33.333, "other": 33.333, "third": 33.334}
    current = assumed_capacity_file(thirds, "x").content
    asked = QueueQuestion(PlanTarget.YARN_CAPACITY, (current, "now.xml"), CORES)
    found = propose_queues(diagnosis.tables, diagnosis.graph, asked)
    assert read_capacity_file(content_of(found), "after.xml").capacity("root.third") == 33.334


def test_a_file_without_the_queue_that_ran_is_refused(diagnosis: iqcar.Diagnosis) -> None:
    current = assumed_capacity_file({"gone": 100.0}, "x").content
    asked = QueueQuestion(PlanTarget.YARN_CAPACITY, (current, "now.xml"), CORES)
    with pytest.raises(IqcarError, match=r"now.xml: has no queue 'default', in which "):
        propose_queues(diagnosis.tables, diagnosis.graph, asked)


def test_applications_that_share_nothing_need_no_plan(tmp_path: Path) -> None:
    alone = recorded(hog_and_others(5)[:1], False).logs()
    tables = read(alone, tmp_path)
    with pytest.raises(IqcarError, match="no two of the applications share a cluster"):
        propose_queues(
            tables, iqcar.diagnose(tables).graph, QueueQuestion(PlanTarget.YARN_CAPACITY)
        )


def test_applications_that_cannot_be_replayed_need_no_plan_either(tmp_path: Path) -> None:
    idle = [SyntheticLog(f"application_1_{n}").app().executor() for n in range(2)]
    tables = read(idle, tmp_path)
    with pytest.raises(IqcarError, match="no two of the applications share a cluster"):
        propose_queues(tables, iqcar.diagnose(tables).graph, QueueQuestion(PlanTarget.YARN_FAIR))
