"""``iqcar rules compile --for`` a cluster manager: what it writes, what it says, how it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command import iqcar
from tests.support.shared_cluster_logs import YARN, whole_cluster_held

FOR = ("rules", "compile", "--for", "yarn-capacity")


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("logs")
    settings = {"spark_executor_instances": "2", "spark_executor_cores": "2"}
    for number, log in enumerate(whole_cluster_held(YARN, **settings)):
        log.write(folder / str(number))
    return folder


def test_a_plan_is_written_with_how_to_apply_it(logs: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = iqcar(*FOR, logs, "--out", out, "--json", tmp_path / "plan.json")
    assert (done.returncode, done.stdout.startswith("This plan is expected to help")) == (0, True)
    assert "+    <value>default,iqcar-morning</value>" in done.stdout
    said = json.loads((tmp_path / "plan.json").read_text())
    assert (said["outlook"], said["written"]) == ("helps", True)
    assert "root.iqcar-morning" in (out / "capacity-scheduler.xml").read_text()
    how = (out / "HOW_TO.md").read_text()
    assert "yarn rmadmin -refreshQueues" in how
    assert "--conf spark.yarn.queue=root.iqcar-morning" in how
    again = iqcar(*FOR, logs, "--out", out)
    assert (again.returncode, "exists already" in again.stderr) == (2, True)


def test_a_file_that_is_no_queues_is_refused_in_one_line(logs: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.xml"
    wrong.write_text("<!DOCTYPE a [<!ENTITY b 'c'>]><configuration/>")
    done = iqcar(*FOR, logs, "--current", wrong, "--out", tmp_path / "out")
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.strip().splitlines()
    assert "document type" in line


def test_several_rules_files_are_refused(tmp_path: Path) -> None:
    done = iqcar("rules", "compile", "a.json", "b.json")
    assert (done.returncode, "takes one file" in done.stderr) == (2, True)
