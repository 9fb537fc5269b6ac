"""Draws who hurts whom: source queries × target queries, runs of recurring queries summed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from iqcar.base.limits import MOST_IN_MATRIX, MOST_WITH_TEXT, fold
from iqcar.base.units import RESOURCE_NAMES, duration
from iqcar.causes.graph.iqc_graph import IQCGraph
from iqcar.enums import BlameKind, Resource
from iqcar.errors import UsageError
from iqcar.say.blamed import OTHER_QUERIES, RecurringNames, cause_name
from iqcar.show.pictures import theme as look
from iqcar.show.pictures.palette import BLAME_COLOURS
from iqcar.tables.arrays import Flags, Floats, Ints

MEASURES = {
    "lost_ms": "elapsed time lost",
    "share_of_duration": "share of the run that was lost",
    "dor": "degree of responsibility",
}
OTHERS_ROW = -2
"""Stands for all queries that were folded."""
_CAUSES = {BlameKind.KNOWN: -3, BlameKind.UNATTRIBUTED: -4}


class Cells(NamedTuple):
    """The matrix before it is drawn.

    sources: rows of first runs of recurring queries, most harmful first; then −2 for all others, −3
    for known causes and −4 for what is unattributed, where there is any
    targets: rows of first runs of recurring queries, worst hit first; then −2 for all
    others, if any
    value: (sources, targets)
    folded_sources, folded_targets: how many queries −2 stands for, beside those that the graph
    itself has folded
    """

    sources: list[int]
    targets: list[int]
    value: Floats
    folded_sources: int
    folded_targets: int


def matrix_cells(
    graph: IQCGraph,
    names: RecurringNames,
    measure: str = "lost_ms",
    resource: Resource | None = None,
    most: int = MOST_IN_MATRIX,
) -> Cells:
    """Sum who hurts whom; sums of folded queries are sums of ms or DOR, and means of shares.

    Of the runs of a recurring query, ms are summed; its share is of the time that all took, and its
    DOR the mean over those that lost time. Raises UsageError if there is no such measure.
    """
    if measure not in MEASURES:
        raise UsageError(
            f"no measure is called {measure!r}", "matrix", f"take {', '.join(MEASURES)}"
        )
    hurts = graph.who_hurts_whom(resource)
    lost = hurts["lost_ms"].to_numpy(np.float64)
    run = hurts["target_query"].to_numpy(np.int64)
    source, target = names.first_runs(_sources(hurts)), names.first_runs(run)
    value = hurts[measure].to_numpy(np.float64)
    if measure == "share_of_duration":
        ran = names.ran_ms[target]
        value = np.where(ran > 0, lost / np.where(ran > 0, ran, 1.0), 0.0)
    elif measure == "dor":
        value = value / np.bincount(names.first_runs(np.unique(run)))[target]
    some = (lost > 0) | (value > 0)
    source, target, lost, value = source[some], target[some], lost[some], value[some]
    between = ((source >= 0) | (source == OTHERS_ROW)) & (source != target)
    sources, folded_sources = _largest(
        source[source >= 0], lost[source >= 0], between[source >= 0], most
    )
    targets, folded_targets = _largest(target, lost, between, most)
    others = bool(folded_sources) or bool((source == OTHERS_ROW).any())
    rows = [*sources, *([OTHERS_ROW] if others else [])]
    rows += [code for code in _CAUSES.values() if (source == code).any()]
    columns = [*targets, *([OTHERS_ROW] if folded_targets else [])]
    at_row = {row: i for i, row in enumerate(rows)}
    at_column = {row: i for i, row in enumerate(columns)}
    i = np.array([at_row.get(s, at_row.get(OTHERS_ROW, 0)) for s in source.tolist()], np.int64)
    j = np.array(
        [at_column.get(t, at_column.get(OTHERS_ROW, 0)) for t in target.tolist()], np.int64
    )
    summed = np.zeros((len(rows), len(columns)))
    np.add.at(summed, (i, j), value)
    if measure == "share_of_duration" and folded_targets:
        summed[:, -1] /= folded_targets
    return Cells(rows, columns, summed, folded_sources, folded_targets)


def matrix(
    graph: IQCGraph,
    names: RecurringNames,
    measure: str = "lost_ms",
    *,
    resource: Resource | None = None,
    most: int = MOST_IN_MATRIX,
    dark: bool = False,
) -> look.Figure:
    """Draw who hurts whom: a row is in the way, a column lost the time.

    measure: ``lost_ms``, ``share_of_duration`` or ``dor``.
    resource: only what was lost to this resource.
    most: sources and targets at most; the others are summed in one row and one column.
    """
    cells = matrix_cells(graph, names, measure, resource, most)
    of = f" to {RESOURCE_NAMES[resource]}" if resource is not None else ""
    if not cells.value.size or not cells.value.any():
        return look.nothing(f"No query lost time{of} that could be measured.", dark=dark)
    rows, full_rows = _named(names, cells.sources, cells.folded_sources)
    columns, full_columns = _named(names, cells.targets, cells.folded_targets)
    values = cells.value.tolist()
    itself = [[source == target >= 0 for target in cells.targets] for source in cells.sources]
    alone = [row >= 0 and names.runs[row] == 1 for row in cells.targets]
    trace = {
        "type": "heatmap",
        "z": values,
        "zmin": 0,
        "zmax": float(cells.value.max()),
        "text": [[_amount(value, measure) for value in row] for row in values],
        "texttemplate": "%{text}" if len(columns) <= MOST_WITH_TEXT else "",
        "hovertext": [
            [
                _sentence(full_rows[i], full_columns[j], value, measure, alone[j] and itself[i][j])
                for j, value in enumerate(row)
            ]
            for i, row in enumerate(values)
        ],
    }
    own = {"color": BLAME_COLOURS[BlameKind.OWN], "width": 1.5, "dash": "dot"}
    return look.figure(
        [trace],
        f"Who hurts whom: {MEASURES[measure]}{of}",
        dark=dark,
        height=look.FRAME_PX + 60 + look.ROW_PX * len(rows),
        xaxis={**look.names_axis(columns), "title": {"text": "who lost the time"}},
        yaxis={**look.names_axis(rows, down=True), "title": {"text": "who was in the way"}},
        shapes=[
            {"type": "rect", "x0": j - 0.47, "x1": j + 0.47, "y0": i - 0.44, "y1": i + 0.44,
             "line": own}
            for i, j in np.argwhere(itself).tolist()
        ],
    )  # fmt: skip


def _sources(hurts: pd.DataFrame) -> Ints:
    source: Ints = hurts["source_query"].to_numpy(np.int64).copy()
    kind = hurts["kind"].to_numpy(object)
    for cause, code in _CAUSES.items():
        source[(source < 0) & (kind == cause.value)] = code
    source[kind == BlameKind.REST.value] = OTHERS_ROW
    return source


def _largest(rows: Ints, lost: Floats, between: Flags, most: int) -> tuple[list[int], int]:
    """Rows with the largest sums between queries, then of anything; and how many are left."""
    if len(rows) == 0:
        return [], 0
    every, of = np.unique(rows, return_inverse=True)
    others = np.bincount(of, np.where(between, lost, 0.0), minlength=len(every))
    total = np.bincount(of, lost, minlength=len(every))
    order = every[np.lexsort((every, -total, -others))]
    kept, rest = fold(np.zeros(len(order)), most)
    return order[kept].tolist(), len(rest)


def _words(row: int, folded: int) -> str | None:
    if row == OTHERS_ROW and not folded:
        return OTHER_QUERIES
    if row == OTHERS_ROW:
        return f"{folded} other {'query' if folded == 1 else 'queries'}"
    return next((cause_name(kind) for kind, code in _CAUSES.items() if code == row), None)


def _named(names: RecurringNames, rows: list[int], folded: int) -> tuple[list[str], list[str]]:
    """Labels of rows or columns, and their names in full."""
    real = [row for row in rows if row >= 0]
    called = dict(zip(real, map(look.safe, names.labels(real, 28)), strict=True))
    labels = [_words(row, folded) or called[row] for row in rows]
    full = [_words(row, folded) or look.safe(names.called(row, 90)) for row in rows]
    return labels, full


def _amount(value: float, measure: str) -> str:
    if value <= 0:
        return ""
    return duration(value) if measure == "lost_ms" else look.percent_text(value)


def _sentence(source: str, target: str, value: float, measure: str, own: bool) -> str:
    if value <= 0:
        return f"{target}<br>lost nothing to {source}"
    what = {
        "lost_ms": "of its elapsed time",
        "share_of_duration": "of its run",
        "dor": "of the responsibility for what it lost",
    }[measure]
    to = cause_name(BlameKind.OWN) if own else source
    return f"<b>{target}</b><br>lost {_amount(value, measure)} {what}<br>to {to}"
