"""Which sources of a target are named and which go into its rest, and in what batches to look.

Who hurts whom is a matrix of queries × queries: of 2,000 queries at once it has 4 million cells,
per request and host. Only the largest cells of each target are kept. To choose them, the cells of
a few targets at a time are worked out whole, and their rest is summed before the next are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from iqcar.tables.arrays import sum_by

if TYPE_CHECKING:
    from iqcar.tables.arrays import Flags, Floats, Ints

MOST_SOURCES = 20
"""Source queries named per target query. A person reads ten; 2,000 targets of 20 sources each are
30 MB of JSON."""

PAIRS_AT_ONCE = 1_000_000
"""Pairs of a demand and a source stage worked out at once: 200 bytes each with what is made of
them, 200 MB."""

PAIRS_PER_TASK = 2
"""As many per task are worked out at once, if that is more: every batch looks at all tasks, so that
batches cost time in proportion to pairs, and memory in proportion to the tables."""

CELLS_PER_ENTRY = 8
"""Up to here a table of all cells is cheaper than sorting the entries."""


@dataclass(frozen=True)
class Reach:
    """What each demand is to its target query, to rank its sources by and to sum their rest in.

    Attributes
    ----------
    dor : (demands,) degree of responsibility.
    lost_ms : (demands,) elapsed time lost.
    by_beta : whether sources share in `dor` by their blame β, else by lost time.
    """

    dor: Floats
    lost_ms: Floats
    by_beta: bool = False


def beyond_largest(target: Ints, source: Ints, size: Floats, most: int) -> Flags:
    """Mark entries whose source is not among the largest ``most`` sources of their target.

    Parameters
    ----------
    target, source : (n,) int64, ≥ 0
        Of each entry; a pair may have several entries and counts with their sum.
    size : (n,) float64, ≥ 0
        How large each entry is.
    most : int
        Sources kept per target; of equal ones those that come first by number.

    Returns
    -------
    (n,) bool
        Nothing is marked where a target has at most ``most`` sources, and no single one: a rest of
        one source would hide its name for nothing.
    """
    if not len(target):
        return np.zeros(0, bool)
    owner, _, member = distinct_pairs(target, source)
    total = sum_by(member, size, len(owner))
    begin = np.flatnonzero(np.diff(owner, prepend=-1))
    count = np.diff(begin, append=len(owner))
    marked = np.zeros(len(owner), bool)
    for one in np.flatnonzero(count > most + 1).tolist():
        here = slice(begin[one], begin[one] + count[one])
        marked[here] = ~_largest(total[here], most)
    flags: Flags = marked[member]
    return flags


def _largest(values: Floats, most: int) -> Flags:
    """Mark the ``most`` largest of more values than that, the first of equal ones.

    Not by sorting: that of all pairs took longer than finding them.
    """
    place = len(values) - most
    bound = np.partition(values, place)[place]
    kept: Flags = values > bound
    equal = np.flatnonzero(values == bound)
    kept[equal[: most - np.count_nonzero(kept)]] = True
    return kept


def distinct_pairs(target: Ints, source: Ints) -> tuple[Ints, Ints, Ints]:
    """Return target and source of each distinct pair, in order, and each entry's position there."""
    first = int(target.min()) if len(target) else 0
    width = int(source.max(initial=0)) + 1
    key = (target - first) * width + source
    cells = (int(target.max(initial=first)) - first + 1) * width
    if cells <= CELLS_PER_ENTRY * len(key):
        present = np.zeros(cells, bool)
        present[key] = True
        pairs, member = np.flatnonzero(present), np.cumsum(present)[key] - 1
    else:
        pairs, member = np.unique(key, return_inverse=True)
    return pairs // width + first, pairs % width, member


def batches(owner: Ints, cost: Floats, most: float) -> list[Flags]:
    """Split groups into batches of bounded cost that no owner's groups are divided among.

    Parameters
    ----------
    owner : (n,) int64
        Whom each group belongs to.
    cost : (n,) float64
    most : float
        Cost of a batch at most; an owner whose groups cost more has one of its own.

    Returns
    -------
    list of (n,) bool
        One batch of everything where that is cheap enough.
    """
    if float(cost.sum()) <= most:
        return [np.ones(len(owner), bool)]
    owners, member = np.unique(owner, return_inverse=True)
    batch = np.zeros(len(owners), np.int64)
    number, spent = 0, 0.0
    for at, one in enumerate(np.bincount(member, cost, len(owners)).tolist()):
        if spent > 0 and spent + one > most:
            number, spent = number + 1, 0.0
        batch[at] = number
        spent += one
    return [batch[member] == n for n in range(number + 1)]
