"""Leave some applications out of tables: those that are named, or those that meet a bug."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from iqcar import tables as tb
from iqcar.enums import InputStatus
from iqcar.errors import IqcarError, explain_bug
from iqcar.logs.merge import POINTS_TO
from iqcar.logs.text.redact import redact_text

T = TypeVar("T")

_OWNERS = ("app", "stage", "job", "task")
"""Columns that tell whose a row is; the first that a table has."""
_OF_QUERIES = {name: {"query": "queries"} for name in ("jobs", "stages", "tasks")}


def leave_out(tables: tb.Tables, reasons: Mapping[int, str]) -> tb.Tables:
    """Return the tables without some applications.

    Parameters
    ----------
    reasons : rows of the applications to leave out, and why: their inputs become failed ones.

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

    Parameters
    ----------
    work : called with the tables.
    alone : what to do with single applications instead.

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
