"""Keeps one side of a comparison in a file of kilobytes, so that its logs need not be kept."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pandas as pd

from iqcar.comparison.sides.comparison_tables import NODE_RUNS, NODES, QUERY_GRAPHS, QUERY_SETTINGS
from iqcar.comparison.sides.side import Side, SideFacts
from iqcar.enums import EVIDENCES
from iqcar.errors import IqcarError
from iqcar.model.waits.stage_parts import TASK_PARTS

HEAD = b'{"iqcar_baseline":'
"""How a baseline begins; no event log does."""
VERSION = 1
"""Changes when an older file can no longer be read."""
_TABLES = (NODES, NODE_RUNS, QUERY_GRAPHS, QUERY_SETTINGS)


class _Stored(msgspec.Struct):
    iqcar_baseline: int
    facts: SideFacts
    doubts: tuple[str, ...]
    tables: dict[str, dict[str, list[str | int | float | None]]]
    evidence: list[list[list[float]]]


def dump_baseline(side: Side) -> bytes:
    """Encode what was measured on one side; numbers nobody knows become null."""
    frames = (side.nodes, side.node_runs, side.graphs, side.settings)
    tables = {
        spec.name: {name: frame[name].tolist() for name in spec.column_names()}
        for spec, frame in zip(_TABLES, frames, strict=True)
    }
    evidence = side.evidence.tolist()
    return msgspec.json.encode(_Stored(VERSION, side.facts, side.doubts, tables, evidence)) + b"\n"


def is_baseline(path: str | Path) -> bool:
    """Tell whether a file is a baseline."""
    try:
        with Path(path).open("rb") as file:
            return file.read(len(HEAD)) == HEAD
    except (OSError, ValueError):
        return False


def load_baseline(path: str | Path) -> Side:
    """Read a file that :func:`dump_baseline` made.

    Raises IqcarError if it is damaged, or of another version.
    """
    data = Path(path).read_bytes()
    try:
        stored = msgspec.json.decode(data, type=_Stored)
        if stored.iqcar_baseline != VERSION:
            raise IqcarError(
                f"is a baseline of version {stored.iqcar_baseline}, not {VERSION}",
                str(path),
                "make it again with --save-baseline",
            )
        frames = [spec.frame(stored.tables[spec.name]) for spec in _TABLES]
        nodes, node_runs, graphs, settings = frames
        _check_rows(*frames)
        shape = (len(nodes), len(TASK_PARTS), len(EVIDENCES))
        evidence = np.array(stored.evidence, np.float64).reshape(shape)
    except (msgspec.MsgspecError, KeyError, ValueError, TypeError) as error:
        raise IqcarError(
            f"is a damaged baseline: {' '.join(str(error).split())[:200]}",
            str(path),
            "make it again with --save-baseline",
        ) from error
    return Side(
        stored.facts, nodes, node_runs, graphs, evidence, settings=settings, doubts=stored.doubts
    )


def _check_rows(
    nodes: pd.DataFrame, node_runs: pd.DataFrame, graphs: pd.DataFrame, settings: pd.DataFrame
) -> None:
    """Raise ValueError if a row number leads nowhere."""
    for frame, name in (
        *((nodes, "query"), (node_runs, "node")),
        *((graphs, "node"), (settings, "node")),
    ):
        if not frame[name].between(0, len(nodes) - 1).all():
            raise ValueError(f"column {name} names rows that do not exist")
    if len(node_runs) and (node_runs[["run", "instances"]].min() < [0, 1]).any():
        raise ValueError("runs are counted from 0 and instances from 1")
