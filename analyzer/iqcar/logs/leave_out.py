"""Tables without some of their applications: the other way round of merging."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from iqcar import tables as tb
from iqcar.enums import InputStatus
from iqcar.logs.merge import POINTS_TO
from iqcar.logs.text.redact import redact_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

_OWNERS = ("app", "stage", "job", "task")
"""Columns that tell whose a row is; the first that a table has."""
_OF_QUERIES = {name: {"query": "queries"} for name in ("jobs", "stages", "tasks")}


def leave_out(tables: tb.Tables, reasons: Mapping[int, str]) -> tb.Tables:
    """Return the tables without some applications.

    Parameters
    ----------
    tables : Tables
    reasons : mapping of int to str
        Rows of the applications to leave out, and why: their inputs become failed ones.

    Returns
    -------
    Tables
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
