"""Selects the largest sources of each target, and divide targets into batches to bound memory.

The blame of source queries for target queries is a matrix: for 2,000 concurrent queries it has 4
million cells per request and host. Only the largest sources of each target are kept. To select
them, all cells of a batch of targets are computed, and the others are summed before the next batch.
"""

from __future__ import annotations

import numpy as np

from iqcar.tables.arrays import Flags, Floats, Ints, sum_by

MOST_SOURCES = 20
"""Source queries named per target query. Users read about ten; 2,000 targets of 20 sources each are
30 MB of JSON."""

PAIRS_AT_ONCE = 1_000_000
"""Pairs of a demand and a source stage per batch; at 200 bytes each with intermediate results, they
take 200 MB."""

PAIRS_PER_TASK = 2
"""Pairs per task in a batch, if that is more. Every batch reads all tasks, so with this bound time
is proportional to pairs, and memory to the size of the tables."""

CELLS_PER_ENTRY = 8
"""Cells per entry up to which a table of all cells is cheaper than sorting the entries."""


def beyond_largest(target: Ints, source: Ints, size: Floats, most: int) -> Flags:
    """Mark entries whose source is not among the largest ``most`` sources of their target.

    Shape (n_entries,). A target with at most ``most + 1`` sources has none marked: a rest of a
    single source would hide its name without saving a row.

    target, source: (n_entries,) target and source of each entry, ≥ 0; the entries of a pair are
        summed.
    size: (n_entries,) size of each entry, ≥ 0.
    most: sources kept per target; of equal ones, those with the lowest numbers.
    """
    if not len(target):
        return np.zeros(0, bool)
    owner, _, member = distinct_pairs(target, source)
    total = sum_by(member, size, len(owner))
    begin = np.flatnonzero(np.diff(owner, prepend=-1))
    count = np.diff(begin, append=len(owner))
    marked = np.zeros(len(owner), bool)
    for position in np.flatnonzero(count > most + 1).tolist():
        here = slice(begin[position], begin[position] + count[position])
        marked[here] = ~_largest(total[here], most)
    return marked[member]


def _largest(values: Floats, most: int) -> Flags:
    """Mark the ``most`` largest values, the first of equal ones; there are more than ``most``.

    By partition, because sorting all pairs took longer than computing them.
    """
    place = len(values) - most
    bound = np.partition(values, place)[place]
    kept: Flags = values > bound
    equal = np.flatnonzero(values == bound)
    kept[equal[: most - np.count_nonzero(kept)]] = True
    return kept


def distinct_pairs(target: Ints, source: Ints) -> tuple[Ints, Ints, Ints]:
    """Return targets and sources of distinct pairs in order, and each entry's position there."""
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
    """Divide groups into batches of bounded cost; all groups of an owner are in one batch.

    Flags of the groups in each batch; one batch with all groups if they cost at most
    ``most``.

    owner: (n_groups,).
    cost: (n_groups,).
    most: maximum cost of a batch; an owner whose groups cost more has a batch of its own.
    """
    if float(cost.sum()) <= most:
        return [np.ones(len(owner), bool)]
    owners, member = np.unique(owner, return_inverse=True)
    batch = np.zeros(len(owners), np.int64)
    number, spent = 0, 0.0
    for at, owner_cost in enumerate(np.bincount(member, cost, len(owners)).tolist()):
        if spent > 0 and spent + owner_cost > most:
            number, spent = number + 1, 0.0
        batch[at] = number
        spent += owner_cost
    return [batch[member] == n for n in range(number + 1)]
