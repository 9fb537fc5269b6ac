"""Names applications, stages, queries, hosts and tasks by row number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iqcar.tables import Tables, texts


@dataclass(frozen=True)
class Labels:
    """Names by row number, which is −1 for something unknown.

    tasks: sequence of str, or None where a task is called by its ``task_id``.
    """

    apps: Sequence[str]
    stages: Sequence[str]
    queries: Sequence[str]
    query_ids: Sequence[str]
    hosts: Sequence[str]
    tasks: Sequence[str] | None = None

    def app(self, row: int) -> str:
        """Name of an application."""
        return _at(self.apps, row)

    def stage(self, row: int) -> str:
        """Name of a stage attempt, or of a trace's job."""
        return _at(self.stages, row)

    def query(self, row: int) -> str:
        """Name of a query."""
        return _at(self.queries, row)

    def query_id(self, row: int) -> str:
        """Id of a query."""
        return _at(self.query_ids, row)

    def host(self, row: int) -> str:
        """Name of a host."""
        return _at(self.hosts, row)

    def task(self, row: int, task_id: int) -> str:
        """Name of a task."""
        return str(task_id) if self.tasks is None else _at(self.tasks, row)


def _at(names: Sequence[str], row: int) -> str:
    return names[row] if 0 <= row < len(names) else ""


def labels_of(tables: Tables) -> Labels:
    """Take the names from the tables of event logs; a stage is called by id, attempt and name."""
    stages = tables.stages
    numbers = zip(
        stages["stage_id"].tolist(), stages["attempt"].tolist(), texts(stages, "name"), strict=True
    )
    return Labels(
        apps=texts(tables.applications, "application_id"),
        stages=[f"{number}.{attempt} {name}".rstrip() for number, attempt, name in numbers],
        queries=texts(tables.queries, "name"),
        query_ids=texts(tables.queries, "query_id"),
        hosts=texts(tables.hosts, "host"),
    )
