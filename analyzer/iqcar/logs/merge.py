"""Puts the tables of several logs together, and leaves applications out of tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from iqcar import tables as tb
from iqcar.enums import InputStatus
from iqcar.errors import IqcarError, explain_bug
from iqcar.logs.text import redact_text

POINTS_TO: dict[str, dict[str, str]] = {
    "inputs": {"app": "applications"},
    "executors": {"app": "applications", "host": "hosts"},
    "sql_executions": {"app": "applications"},
    "jobs": {"app": "applications", "sql_execution": "sql_executions"},
    "stages": {"app": "applications", "job": "jobs"},
    "stage_parents": {"stage": "stages", "parent": "stages"},
    "tasks": {
        "app": "applications",
        "stage": "stages",
        "host": "hosts",
        "executor": "executors",
    },
    "task_failures": {"task": "tasks", "source": "executors"},
    "sql_metrics": {"app": "applications", "sql_execution": "sql_executions"},
    "conf": {"app": "applications", "sql_execution": "sql_executions"},
    "job_properties": {"job": "jobs"},
    "cached": {"app": "applications", "executor": "executors", "stage": "stages"},
    "task_records": {"task": "tasks"},
    "intervals": {"task": "tasks"},
    "lock_owners": {"task": "tasks", "owner": "tasks"},
    "pools": {"app": "applications"},
    "rule_changes": {"app": "applications"},
    "executor_targets": {"app": "applications"},
    "driver_phases": {"app": "applications", "sql_execution": "sql_executions"},
    "samples": {"app": "applications", "host": "hosts", "executor": "executors"},
}
"""Columns that hold row numbers of another table."""


def merge(several: Sequence[tb.Tables]) -> tb.Tables:
    """Put tables together: rows are renumbered, hosts of the same name become one.

    several: one per input, in the order of the result; ``queries`` must be empty.

    The same application read twice stays two applications.
    """
    if len(several) == 1:
        return several[0]
    rows = _NewRows.from_parts(several)
    merged = {spec.name: _join(spec, several, rows) for spec in tb.SPECS if spec.name != "hosts"}
    return tb.Tables(**merged, hosts=tb.HOSTS.frame({"host": rows.hosts}))


class _NewRows(NamedTuple):
    """Where the rows of each part come to lie: from which on, and those of its hosts."""

    first: dict[str, list[int]]
    of_hosts: list[NDArray[Any]]
    hosts: list[str]

    @classmethod
    def from_parts(cls, several: Sequence[tb.Tables]) -> _NewRows:
        hosts: dict[str, int] = {}
        of_hosts = []
        for part in several:
            rows = [hosts.setdefault(name, len(hosts)) for name in tb.texts(part.hosts, "host")]
            of_hosts.append(np.array(rows, np.int32))
        first = {
            spec.name: np.cumsum([0, *(len(getattr(part, spec.name)) for part in several)]).tolist()
            for spec in tb.SPECS
        }
        return cls(first, of_hosts, list(hosts))

    def moved(self, old: NDArray[Any], target: str, part: int) -> NDArray[np.int32]:
        """Renumber what points to rows of a table."""
        if target == "hosts" and len(self.of_hosts[part]):
            new = self.of_hosts[part][old]
        else:
            new = old + np.int32(self.first[target][part])
        moved: NDArray[np.int32] = np.where(old >= 0, new, np.int32(tb.NONE))
        return moved


def _join(spec: tb.TableSpec, several: Sequence[tb.Tables], rows: _NewRows) -> pd.DataFrame:
    """Join a table column by column, which needs no more memory than one column at a time."""
    frames = [getattr(part, spec.name) for part in several]
    filled = [number for number, frame in enumerate(frames) if len(frame)]
    if not filled:
        return spec.empty()
    targets = POINTS_TO.get(spec.name, {})
    columns: dict[str, Any] = {}
    for column in spec.columns:
        parts: list[Any] = [frames[number][column.name] for number in filled]
        if column.dtype == "category":
            columns[column.name] = _union(parts)
        elif column.name in targets:
            target = targets[column.name]
            moved = [
                rows.moved(old.to_numpy(), target, at)
                for old, at in zip(parts, filled, strict=True)
            ]
            columns[column.name] = np.concatenate(moved)
        else:
            columns[column.name] = np.concatenate([part.to_numpy() for part in parts])
    return spec.frame(columns)


def _union(parts: list[pd.Series]) -> pd.Categorical:
    """Join columns of few texts; the categories are those of any part, in order of appearance."""
    codes: dict[str, int] = {}
    joined = []
    for part in parts:
        old, names = part.cat.codes.to_numpy(), map(str, part.cat.categories)
        row = np.array([codes.setdefault(name, len(codes)) for name in names], np.int32)
        joined.append(np.where(old >= 0, row[old] if len(row) else old, -1))
    return pd.Categorical.from_codes(np.concatenate(joined), pd.Index(list(codes), dtype=object))


T = TypeVar("T")

_OWNERS = ("app", "stage", "job", "task")
"""Columns that tell whose a row is; the first that a table has."""
_OF_QUERIES = {name: {"query": "queries"} for name in ("jobs", "stages", "tasks")}


def leave_out(tables: tb.Tables, reasons: Mapping[int, str]) -> tb.Tables:
    """Return the tables without some applications.

    reasons: rows of the applications to leave out, and why: their inputs become failed ones.

    All hosts stay, and so do samples taken outside Spark.
    """
    frames = dict(tables)
    kept: dict[str, NDArray[np.bool_]] = {"hosts": np.ones(len(tables.hosts), bool)}
    kept["applications"] = ~np.isin(np.arange(len(tables.applications)), list(reasons))
    pointers = {**POINTS_TO, "queries": {"app": "applications"}}
    for name, of_queries in _OF_QUERIES.items():
        pointers[name] = {**pointers[name], **of_queries}
    for name, columns in pointers.items():
        owner = next(one for one in _OWNERS if one in columns)
        rows = frames[name][owner].to_numpy()
        # The last element is for rows of no application.
        kept[name] = np.append(kept[columns[owner]], True)[rows]
    kept["inputs"][:] = True
    left: dict[str, Any] = {}
    for name, frame in frames.items():
        found = frame[kept[name]].reset_index(drop=True)
        moved = {
            column: _renumbered(found[column].to_numpy(), kept[target])
            for column, target in pointers.get(name, {}).items()
        }
        left[name] = found.assign(**moved)
    left["inputs"] = _failed(tables, left["inputs"], reasons)
    return tables.with_(**left)


def _renumbered(rows: NDArray[Any], kept: NDArray[np.bool_]) -> NDArray[np.int32]:
    new = np.append(np.where(kept, np.cumsum(kept) - 1, tb.NONE), tb.NONE)
    found: NDArray[np.int32] = new[rows].astype(np.int32)
    return found


def _failed(tables: tb.Tables, inputs: Any, reasons: Mapping[int, str]) -> Any:
    of_input = tables.inputs["app"].tolist()
    status, message = tb.texts(inputs, "status"), tb.texts(inputs, "message")
    for row, app in enumerate(of_input):
        if app in reasons:
            status[row], message[row] = str(InputStatus.FAILED), redact_text(reasons[app])
    columns = {name: inputs[name].to_numpy() for name in inputs}
    return tb.INPUTS.frame({**columns, "status": status, "message": message})


def without_faulty(
    tables: tb.Tables,
    work: Callable[[tb.Tables], T],
    alone: Callable[[tb.Tables], T] | None = None,
) -> T:
    """Do some work; where a bug is met, without the applications that it is met in alone.

    work: called with the tables.
    alone: what to do with single applications instead.

    Returns what the work returned. Whoever needs the tables that were left lets it return them,
    too.

    Raises the bug where it is met in no application alone, or in all of them.
    """
    try:
        return work(tables)
    except IqcarError:
        raise
    except Exception:
        reasons: dict[int, str] = {}
        apps = range(len(tables.applications))
        for app in apps:
            try:
                (alone or work)(leave_out(tables, {one: "" for one in apps if one != app}))
            except Exception as error:
                reasons[app] = f"analysing it {explain_bug(error)}"
        if len(reasons) in (0, len(apps)):
            raise
        return work(leave_out(tables, reasons))
