"""Writes the stage graph of each query as text that is equal for equal graphs.

One line per stage, readers before what they read, the depth before the label. What a stage reads
is sorted by content, so ids and the order of submission do not matter; a stage that several read
is written once and referred to by its label afterwards.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np

from iqcar.tables import Tables, texts
from iqcar.tables.arrays import Ints, known_or_zero, sum_by

SCAN, SEPARATOR = "Scan ", "; "
"""How operators that read a table begin, and what stands between the operators of a label."""
AGAIN = "^"
"""Stands before the label of a stage that was written before."""


class QueryStages(NamedTuple):
    """Stages of the queries of a side, attempts of one stage taken together."""

    number: Ints
    """(n_stages,): number of each row's stage; −1 where its query was left out."""
    query: Ints
    """(n_numbers,): its query's row."""
    row: Ints
    """(n_numbers,): row of its first attempt."""

    def of_node(self, node: Ints) -> Ints:
        """Return the node of each row of the table of stages."""
        return np.where(self.number >= 0, np.append(node, -1)[self.number], -1)


def query_stages(tables: Tables, recurring: Ints, turn: Ints) -> QueryStages:
    """Number the stages of queries that recur: by the queries' order of starts, then by id."""
    query = tables.stages["query"].to_numpy(np.int64)
    number = np.full(len(query), -1)
    rows = np.flatnonzero(query >= 0)
    rows = rows[recurring[query[rows]] >= 0]
    stage_id = tables.stages["stage_id"].to_numpy(np.int64)[rows]
    attempt = tables.stages["attempt"].to_numpy(np.int64)[rows]
    rows = rows[np.lexsort((attempt, stage_id, turn[query[rows]]))]
    key = np.column_stack([query[rows], tables.stages["stage_id"].to_numpy(np.int64)[rows]])
    new = np.ones(len(rows), bool)
    new[1:] = (key[1:] != key[:-1]).any(axis=1)
    number[rows] = np.cumsum(new) - 1
    return QueryStages(number, query[rows[new]], rows[new])


class StageGraph(NamedTuple):
    """Stages of the queries of a side, by number, and what they read."""

    labels: list[str]
    reads: list[set[int]]
    """Numbers of the stages that each one reads; they are lower."""
    scans: list[frozenset[str]]
    """Operators of the stage, and of all that it reads, which scan a table."""
    digest: list[bytes]
    """Of the label and of all that is read: equal for equal graphs."""


def stage_graph(tables: Tables, stages: QueryStages) -> StageGraph:
    """Link the stages of each query, attempts taken together; one without a label has its site."""
    n = len(stages.row)
    label, site = texts(tables.stages, "label"), texts(tables.stages, "name")
    labels = [label[row] or site[row] for row in stages.row.tolist()]
    edge = [
        stages.number[tables.stage_parents[name].to_numpy(np.int64)] for name in ("stage", "parent")
    ]
    reads: list[set[int]] = [set() for _ in range(n)]
    for reader, parent in zip(edge[0].tolist(), edge[1].tolist(), strict=True):
        # A parent has the lower id, in any log but a damaged one.
        if 0 <= parent < reader and stages.query[parent] == stages.query[reader]:
            reads[reader].add(parent)
    digest = [b""] * n
    scans: list[frozenset[str]] = []
    for number in range(n):  # what a stage reads has a lower number
        own = (word for word in labels[number].split(SEPARATOR) if word.startswith(SCAN))
        scans.append(frozenset(own).union(*(scans[parent] for parent in reads[number])))
        below = sorted(digest[parent] for parent in reads[number])
        digest[number] = hashlib.sha256(b"\0".join([labels[number].encode(), *below])).digest()
    return StageGraph(labels, reads, scans, digest)


def number_alike(tables: Tables, stages: QueryStages, graph: StageGraph) -> list[int]:
    """Number the stages of one label in a query by the tables they read, then by what and how much.

    Adaptive execution submits stages as others end, so their ids differ between equal runs.
    """
    tasks = tables.tasks
    stage = tasks["stage"].to_numpy(np.int64)
    has = np.flatnonzero(stage >= 0)
    read = [
        sum_by(stage[has], known_or_zero(tasks[name].to_numpy(np.float64)[has]), len(tables.stages))
        for name in ("input_records", "shuffle_read_records")
    ]
    records = (read[0] + read[1])[stages.row].tolist()
    alike: dict[tuple[int, str], list[int]] = {}
    for number, key in enumerate(zip(stages.query.tolist(), graph.labels, strict=True)):
        alike.setdefault(key, []).append(number)
    ordinals = [0] * len(stages.row)
    for numbers in alike.values():
        numbers.sort(key=lambda n: (sorted(graph.scans[n]), graph.digest[n], -records[n], n))
        for ordinal, number in enumerate(numbers):
            ordinals[number] = ordinal
    return ordinals


def graph_keys(stages: QueryStages, graph: StageGraph) -> dict[int, str]:
    """Return the text of the stage graph of each query that has stages, by its row."""
    is_read = {parent for parents in graph.reads for parent in parents}
    roots: dict[int, list[int]] = {}
    for number, query in enumerate(stages.query.tolist()):
        if number not in is_read:
            roots.setdefault(query, []).append(number)
    return {
        query: "\n".join(_lines(sorted(roots_of, key=graph.digest.__getitem__), graph))
        for query, roots_of in roots.items()
    }


def _lines(roots: list[int], graph: StageGraph) -> list[str]:
    lines: list[str] = []
    written: set[int] = set()
    stack = [(0, root) for root in reversed(roots)]
    while stack:
        depth, number = stack.pop()
        label = graph.labels[number].replace("\n", " ")
        if number in written:
            lines.append(f"{depth} {AGAIN}{label}")
            continue
        written.add(number)
        lines.append(f"{depth} {label}")
        below = sorted(graph.reads[number], key=graph.digest.__getitem__, reverse=True)
        stack += [(depth + 1, parent) for parent in below]
    return lines
