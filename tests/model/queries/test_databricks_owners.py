"""Whom queries on Databricks belong to: users, notebooks, workflows, and tags of the cluster."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from iqcar.errors import UsageError
from iqcar.logs import read_logs
from iqcar.logs.events.settings import CLUSTER_TAGS, MAX_TAGS, MOST_TAGS
from iqcar.model.queries.identify import DATABRICKS, HIDDEN, checked_grouping, identify, owners
from iqcar.tables import Tables, texts
from iqcar_lab.clusters.event_log import SyntheticLog

HIDE = "Zq7VxW3kRt9yLp2m"


def tags_of(tags: Mapping[str, str]) -> str:
    return json.dumps([{"key": key, "value": value} for key, value in tags.items()])


def read(folder: Path, tags: str, *jobs: dict[str, str]) -> Tables:
    """Tables of a cluster with tags, whose jobs repeat them as Databricks' do."""
    log = SyntheticLog().app().environment(**{CLUSTER_TAGS: tags})
    for number, own in enumerate(jobs):
        log.job(
            number,
            [number],
            properties={"spark.jobGroup.id": f"g{number}", CLUSTER_TAGS: tags, **own},
        )
        log.stage(number).stage_end(number).job_end(number)
    log.write(folder / "app-1")
    return identify(read_logs([str(folder / "app-1")]))


def test_each_job_belongs_to_the_user_notebook_and_workflow_that_databricks_names(
    tmp_path: Path,
) -> None:
    first = {
        "user": "eve@acme.example",
        "spark.databricks.notebook.path": "/Shared/eve/load",
        "spark.scheduler.pool": "6625579578828059606",
    }
    second = {"spark.databricks.job.id": "703", "spark.databricks.job.runId": "31144"}
    tables = read(tmp_path, tags_of({}), first, second)

    assert owners(tables, "user") == ["eve@acme.example", "ann"]
    assert owners(tables, "pool") == ["6625579578828059606", "(no pool)"]
    assert owners(tables, "notebook") == ["/Shared/eve/load", "(no notebook)"]
    assert owners(tables, "workflow") == ["(no workflow)", "703"]
    assert owners(tables, "workflow-run") == ["(no workflow-run)", "31144"]


def test_a_tag_of_the_cluster_is_an_owner_however_long_their_list_is(tmp_path: Path) -> None:
    tags = {**{f"Filler{n}": "x" * 200 for n in range(20)}, "Cost Center": "α-7", "Team": "bi"}
    tables = read(tmp_path, tags_of(tags), {})

    assert owners(tables, "tag:Team") == ["bi"]
    assert owners(tables, "tag:Cost Center") == ["α-7"]
    assert owners(tables, "tag:Other") == ["(no tag:Other)"]
    assert len(tables.job_properties) == 0


@pytest.mark.parametrize(
    "tags",
    [
        tags_of({"Team": "bi", "dbPassword": HIDE, "note": f"token={HIDE}"}),
        tags_of({"Team": "bi", f"password={HIDE}": "x"}),
        json.dumps([{"key": "Team", "value": "bi"}, {"value": HIDE, "key": "api-key"}]),
    ],
)
def test_secrets_in_tags_are_nowhere(tags: str, tmp_path: Path) -> None:
    tables = read(tmp_path, tags, {"spark.databricks.token": HIDE})

    assert owners(tables, "tag:Team") == ["bi"]
    if "dbPassword" in tags:
        assert owners(tables, "tag:dbPassword") == [HIDDEN]
    for table in (tables.conf, tables.job_properties):
        assert not any(HIDE in one for name in ("key", "value") for one in texts(table, name))


@pytest.mark.parametrize(
    "tags",
    [
        "",
        "null",
        "{}",
        f'[{{"key":"dbPassword","value":"{HIDE}"',  # cut off
        f'[{{"key":"dbPassword","value":["{HIDE}"]}}]',
        "[" * 20_000,
        tags_of({"secret": HIDE}) + " " * MAX_TAGS,
    ],
)
def test_a_list_of_tags_that_cannot_be_read_is_left_out(tags: str, tmp_path: Path) -> None:
    tables = read(tmp_path, tags, {})

    assert not any(CLUSTER_TAGS in key for key in texts(tables.conf, "key"))
    assert len(tables.job_properties) == 0
    assert owners(tables, "tag:dbPassword") == ["(no tag:dbPassword)"]


def test_the_number_of_tags_is_bounded(tmp_path: Path) -> None:
    tables = read(tmp_path, tags_of({f"t{n}": "x" for n in range(MOST_TAGS + 50)}), {})

    assert sum(CLUSTER_TAGS in key for key in texts(tables.conf, "key")) == MOST_TAGS


def test_short_names_are_groupings_and_others_are_refused() -> None:
    for by in (*DATABRICKS, "tag:Team"):
        assert checked_grouping(by) == by
    for by in ("tag:", "notebooks", "job"):
        with pytest.raises(UsageError, match="cannot be grouped"):
            checked_grouping(by)


def test_logs_of_databricks_tell_users_notebooks_and_tags(shared_logs: Path) -> None:
    notebook = identify(read_logs([str(shared_logs / "xgboost_eventlog.zstd")]))
    assert {one.partition("@")[0] for one in owners(notebook, "user")} == {"eordentlich"}
    assert all(one.startswith("/Users/") for one in owners(notebook, "notebook"))
    workflow = identify(read_logs([str(shared_logs / "databricks.json.gz")]))
    assert set(owners(workflow, "workflow")) == {"703"}
    assert set(owners(workflow, "tag:RunName")) == {"AirlineDelayLR_gz"}
