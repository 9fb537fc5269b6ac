"""Files of rules, the settings of applications that have them, and what became of their pools."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from iqcar.tables import Tables, texts
from tests.support.listener_spark import PLUGIN, App

REFUSED = "iqcar: no rules are applied"
"""What the driver says where rules cannot act."""


def pool(name: str, weight: Any = 1, **more: Any) -> dict[str, Any]:
    return {"name": name, "weight": weight, "min_share": 0, "mode": "FIFO", **more}


def rule(pool_name: str, **match: str) -> dict[str, str]:
    none = {"fingerprint": "", "description": "", "job_group": ""}
    return {"pool": pool_name, "rule_id": f"R-{pool_name}", **none, **match}


FIRST = rule("first", job_group="many")
"""For the workload of many tasks, whose group has its name."""


def rules_file(path: Path, pools: list[Any], assignments: list[Any], **more: Any) -> str:
    """Write a compiled file of rules; return its path."""
    content = {
        "schema_version": "1", "iqcar_version": "0.1.0", "rules": [], "notes": [],
        "pools": pools, "assignments": assignments, **more,
    }  # fmt: skip
    path.write_text(json.dumps(content), encoding="utf-8")
    return str(path)


def applied(path: str) -> dict[str, str]:
    return {**PLUGIN, "spark.iqcar.rules": path}


def scheduler_mode(app: App) -> str:
    *_, last = (e for e in app.events if e["Event"] == "SparkListenerEnvironmentUpdate")
    return str(last["Spark Properties"].get("spark.scheduler.mode", "FIFO"))


def pools_of(app: App) -> dict[str, dict[str, Any]]:
    """The pools that the last event of the scheduler lists."""
    return {one["name"]: one for one in app.own_events()[-1]["pools"]}


def pools_in_records(app: App, group: str) -> set[str | None]:
    return {record.get("pool") for record in app.records(group)}


def pools_of_tasks(tables: Tables) -> Iterator[tuple[str, str]]:
    """Fingerprint of each task's query and the pool in the task's record."""
    fingerprints = texts(tables.queries, "fingerprint")
    records = tables.task_records
    query = tables.tasks["query"].to_numpy()
    for task, name in zip(records["task"].tolist(), texts(records, "pool"), strict=True):
        yield fingerprints[query[task]], name
