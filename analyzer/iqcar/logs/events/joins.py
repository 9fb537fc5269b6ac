"""Finds the joins of a plan for which both sides are shuffled, though one could be broadcast."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from iqcar.logs.events.operators import NO_OPERATORS
from iqcar.logs.events.structs import PlanNode

_JOINS = ("SortMergeJoin", "ShuffledHashJoin")
_TYPE = re.compile(r"\], (Inner|Cross|LeftOuter|RightOuter|LeftSemi|LeftAnti|ExistenceJoin)\b")
_LEFT_TYPES, _RIGHT_TYPES = ("Inner", "Cross", "RightOuter"), ("RightOuter",)
"""Types of which Spark can build the left side, and of which it cannot build the right one."""
_HASHED = "Exchange hashpartitioning("
_ASKED_FOR = "REPARTITION"
"""In the text of an exchange that the user asked for: it stays whatever the join does."""
_NEEDING = 2
"""Operators above a join that need its partitioning: one window or join, or two aggregates, which
are the partial and the final one."""


class ShuffledJoin(NamedTuple):
    """A join, and the accumulators of the data sizes that its sides' exchanges wrote."""

    left: float
    right: float
    builds_left: bool
    """Whether its type lets Spark broadcast the left side."""
    builds_right: bool


def shuffled_joins(nodes: Sequence[PlanNode]) -> list[ShuffledJoin]:
    """Return the joins that would leave out an exchange if one side were broadcast.

    That is so where both sides are exchanged for the join alone: nothing above needs the same
    partitioning, and no other part of the plan reads what was exchanged.

    Parameters
    ----------
    nodes : as :func:`~iqcar.logs.events.fingerprint.nodes_of` returns them.
    """
    if not any(node.name.startswith(_JOINS) for node in nodes) or any(
        node.name == "ReusedExchange" and _HASHED in node.text for node in nodes
    ):
        return []
    found = []
    stack = [(nodes[0], 0)]
    while stack:
        node, above = stack.pop()
        is_join = node.name.startswith(_JOINS)
        if is_join and above < _NEEDING and len(node.children) == 2:
            told = _TYPE.search(node.text)
            left, right = map(_exchanged, node.children)
            if told and left is not None and right is not None:
                builds = told[1] in _LEFT_TYPES, told[1] not in _RIGHT_TYPES
                found.append(ShuffledJoin(left, right, *builds))
        if node.name.endswith("Exchange"):
            above = 0
        elif is_join or node.name.startswith("Window"):
            above += _NEEDING
        elif node.name.endswith("Aggregate"):
            above += 1
        stack += [(child, above) for child in node.children]
    return found


def _exchanged(node: PlanNode) -> float | None:
    """Return the accumulator of what an exchange right below a join wrote; None without one."""
    while len(node.children) == 1 and (node.name == "Sort" or node.name.startswith(NO_OPERATORS)):
        node = node.children[0]
    if not node.text.startswith(_HASHED) or _ASKED_FOR in node.text:
        return None
    return next((one.id for one in node.metrics if one.name.startswith("data size")), None)
