"""Tests: what is advised can be done where the application ran, and is not done already."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

import iqcar
from iqcar.enums import FindingKind
from iqcar.rules.actions import ACTIONS, Site, actions
from iqcar.rules.vocabulary import read_data
from iqcar_lab.clusters.event_log import SyntheticLog

MASTERS = {
    "local[4]": "local",
    "spark://h:7077": "standalone",
    "local-cluster[2,1,1024]": "standalone",
    "yarn": "yarn",
    "yarn-client": "yarn",
    "k8s://https://h:443": "kubernetes",
}
APIS = ("sql", "rdd", "graphx", "streaming")
VALUES = {"from": 2, "to": 3, "count": 16, "mb": 32, "executors": 4}


def place(path: Path, version: str = "4.0.0", **properties: str) -> Site:
    """Where an application with such properties ran; an underscore stands for a dot."""
    named = {f"spark_{name}": value for name, value in properties.items()}
    log = SyntheticLog("app-1", version).environment(**named).app()
    return Site(iqcar.read(log.executor("1", "host-a", cores=2).end().write(path)), 0)


def test_the_file_is_what_its_schema_says_and_has_a_last_choice_for_every_place() -> None:
    jsonschema.validate(
        json.loads(read_data(ACTIONS)), json.loads(read_data("actions.schema.json"))
    )
    assert set(actions()) <= {kind.value for kind in FindingKind}
    for kind, known in actions().items():
        assert not known.choices[-1].when, kind


@pytest.mark.parametrize("master", MASTERS)
@pytest.mark.parametrize("api", APIS)
def test_no_action_is_impossible_here(master: str, api: str, tmp_path: Path) -> None:
    here = place(tmp_path / "app-1", master=master)
    assert MASTERS[master] in here.holds
    for kind in actions():
        for holds in ({api}, {api, "reads-shuffle"}, {api, "reads-files", "join"}):
            done = here.action(kind, holds, VALUES)
            said = " ".join([done.do, *(name for name, _, _ in done.settings)])
            assert "$" not in said
            if api in ("rdd", "graphx") and kind not in ("collect", "schema"):
                assert "spark.sql." not in said, (kind, said)
            if MASTERS[master] == "local" and kind not in ("start-up", "not-granted", "idle"):
                assert "executors (" not in said, (kind, said)
                assert "spark.executor." not in said, (kind, said)
            if MASTERS[master] not in ("yarn", "local"):
                assert "vcores" not in said and "yarn" not in said, (kind, said)
            if MASTERS[master] != "kubernetes":
                assert "kubectl" not in said, (kind, said)


def test_a_setting_that_is_set_already_is_not_advised(tmp_path: Path) -> None:
    holds = ("sql", "reads-shuffle")
    was = place(tmp_path / "a", master="yarn", sql_adaptive_enabled="false")
    asked = {name: value for name, value, _ in was.action("partitions", holds, VALUES).settings}
    assert asked == {"spark.sql.shuffle.partitions": "16"}
    done = place(
        tmp_path / "b", master="yarn", sql_adaptive_enabled="false", sql_shuffle_partitions="16"
    )
    assert done.action("partitions", holds, VALUES).settings == ()
    waits = place(tmp_path / "c", master="yarn").action("locality")
    assert waits.settings[0][:2] == ("spark.locality.wait", "0s")
    gone = place(tmp_path / "d", master="yarn", locality_wait="0").action("locality")
    assert not gone.settings and "locality.wait" not in gone.do


def test_sizes_that_are_written_otherwise_are_the_same(tmp_path: Path) -> None:
    here = place(tmp_path / "app-1", master="yarn", sql_files_maxPartitionBytes="33554432")
    assert here.is_set("spark.sql.files.maxPartitionBytes", "32m")
    assert not here.is_set("spark.sql.files.maxPartitionBytes", "16m")
    assert not here.is_set("spark.sql.files.openCostInBytes", "32m")


@pytest.mark.parametrize(
    ("properties", "held"),
    [
        ({"dynamicAllocation_enabled": "true"}, "dynamic"),
        ({"plugins": "com.nvidia.spark.SQLPlugin", "rapids_sql_enabled": "true"}, "gpu"),
        ({"databricks_clusterUsageTags_clusterId": "1"}, "databricks"),
        ({"sql_adaptive_enabled": "true"}, "adaptive"),
    ],
)
def test_settings_tell_the_place(properties: dict[str, str], held: str, tmp_path: Path) -> None:
    assert held in place(tmp_path / "app-1", master="spark://h:7077", **properties).holds
    assert held not in place(tmp_path / "b", master="yarn", version="2.4.8").holds - {"adaptive"}
