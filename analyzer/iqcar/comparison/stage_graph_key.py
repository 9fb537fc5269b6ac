"""Write the stage graph of each query as text that is equal for equal graphs.

One line per stage, readers before what they read, the depth before the label. What a stage reads
is sorted by content, so ids and the order of submission do not matter; a stage that several read
is written once and referred to by its label afterwards.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from iqcar.comparison.measured_side import QueryStages
    from iqcar.tables import Tables
    from iqcar.tables.arrays import Ints

AGAIN = "^"
"""Stands before the label of a stage that was written before."""


def graph_keys(
    tables: Tables, stages: QueryStages, label_of_node: list[str], stage_node: Ints
) -> dict[int, str]:
    """Return the text of the stage graph of each query that has stages.

    Parameters
    ----------
    tables : Tables
    stages : QueryStages
        Stages of the queries, attempts taken together.
    label_of_node : list of str
    stage_node : ndarray of shape (n_numbers,)
        Node of each stage.

    Returns
    -------
    dict of query row to str
    """
    n = len(stages.row)
    edge = [
        stages.number[tables.stage_parents[name].to_numpy(np.int64)] for name in ("stage", "parent")
    ]
    reads: list[set[int]] = [set() for _ in range(n)]
    is_read = np.zeros(n, bool)
    for reader, parent in zip(edge[0].tolist(), edge[1].tolist(), strict=True):
        # A parent has the lower id, in any log but a damaged one.
        if 0 <= parent < reader and stages.query[parent] == stages.query[reader]:
            reads[reader].add(parent)
            is_read[parent] = True
    labels = [label_of_node[node] for node in stage_node.tolist()]
    digest = [b""] * n
    for number in range(n):  # what a stage reads has a lower number
        below = sorted(digest[parent] for parent in reads[number])
        digest[number] = hashlib.sha256(b"\0".join([labels[number].encode(), *below])).digest()
    roots: dict[int, list[int]] = {}
    for number in np.flatnonzero(~is_read).tolist():
        roots.setdefault(int(stages.query[number]), []).append(number)
    return {
        query: "\n".join(_lines(sorted(of, key=digest.__getitem__), reads, labels, digest))
        for query, of in roots.items()
    }


def _lines(
    roots: list[int], reads: list[set[int]], labels: list[str], digest: list[bytes]
) -> list[str]:
    lines: list[str] = []
    written: set[int] = set()
    stack = [(0, root) for root in reversed(roots)]
    while stack:
        depth, number = stack.pop()
        label = labels[number].replace("\n", " ")
        if number in written:
            lines.append(f"{depth} {AGAIN}{label}")
            continue
        written.add(number)
        lines.append(f"{depth} {label}")
        below = sorted(reads[number], key=digest.__getitem__, reverse=True)
        stack += [(depth + 1, parent) for parent in below]
    return lines
