"""Merges a store's small files into one per table and month, and removes those it replaced.

A question opens every file of the days that it asks about, so many small files cost most of its
time. What is merged counts as a new addition of the same applications: rows keep the name of their
addition, with that of the merger after it, which sorts after the first and before any later one.
So questions, additions and other mergers can go on meanwhile.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from iqcar.history.store_views import Asked
from iqcar.history.stored_files import NO_DAY, new_batch, part_of, this_month
from iqcar.history.stored_tables import STORED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iqcar.history.stored_files import Part, Store, StoredFile

ENOUGH_BYTES = 16_000_000
"""What an addition or merger wrote of a month is left as it is if it is as large."""
MOST_OF_THIS_MONTH = 32
"""Files of a table in the current month that are left as they are; in a past month, one."""
KEPT_S = 3600.0
"""Files are kept so long after they were replaced: somebody may be reading them."""
ABANDONED_S = 86_400.0
"""An addition that was not finished after so long never will be."""


def merge_months(store: Store) -> int:
    """Merge small files of past days, and remove what was replaced before.

    Returns
    -------
    int
        How many files were merged.

    Raises
    ------
    IqcarError
        If the store cannot be read or written.
    """
    files = [one for table in STORED for one in store.list(table)]
    written = _written(store)
    store.remove(one for one in files if written.can_go(one))
    sizes: Counter[Part] = Counter()
    for one in files:
        sizes[one.part] += one.size
    small = [
        one
        for one in files
        if one.part in written.counting and sizes[one.part] < ENOUGH_BYTES and one.day != NO_DAY
    ]
    small.sort(key=lambda one: one.part)
    merged = 0
    for (cluster, month), group in groupby(small, key=lambda one: one.part[:2]):
        of_month = list(group)
        most = max(Counter(one.table for one in of_month).values())
        if most > (MOST_OF_THIS_MONTH if month == this_month() else 1):
            for names in _together({one.part: sizes[one.part] for one in of_month}):
                _merge(store, cluster, month, names)
            merged += len(of_month)
    return merged


def _together(sizes: dict[Part, int]) -> Iterator[list[str]]:
    """Divide parts of a month into groups that are merged at once; yield their names."""
    names: list[str] = []
    total = 0
    for (_, _, name), size in sizes.items():
        names.append(name)
        total += size
        if total >= ENOUGH_BYTES:
            yield names
            names, total = [], 0
    if names:
        yield names


def _merge(store: Store, cluster: str, month: str, names: list[str]) -> None:
    """Write the rows that count of some additions to a month once more, as one addition."""
    about = Asked(store, f"{month}-01", f"{month}-31", cluster)
    merger = new_batch()
    for table in reversed(STORED):  # that of applications is last, and makes the others count
        rows = about.ask_arrow(
            f"""
            SELECT t.* REPLACE (split_part(t.batch, '+', 1) || '+' || $1 AS batch)
            FROM {table.name} t JOIN latest a ON a.rowid = t.app
            WHERE a.day[:7] = $2 AND list_contains($3::VARCHAR[], split_part(a.batch, '+', -1))""",
            merger,
            month,
            names,
        )
        if rows.num_rows:
            store.write(table, cluster, month, merger, rows)


@dataclass(frozen=True)
class _Written:
    """What additions and mergers wrote: which rows count, and when the others were replaced."""

    counting: frozenset[Part]
    replaced_s: dict[Part, float]

    def can_go(self, one: StoredFile) -> bool:
        """Tell whether nobody needs a file any more."""
        if one.part in self.counting:
            return False
        if one.part in self.replaced_s:
            return time.time() - self.replaced_s[one.part] > KEPT_S
        return time.time() - _written_s(one.batch) > ABANDONED_S


def _written(store: Store) -> _Written:
    known = store.known()
    last = known.groupby(["cluster", "application_id", "attempt_id"])["batch"].transform("max")
    each = known.assign(last=last)[["cluster", "day", "batch", "last"]].drop_duplicates()
    counting: set[Part] = set()
    replaced_s: dict[Part, float] = {}
    for cluster, day, batch, newest in each.itertuples(index=False):
        part = part_of(cluster, day, batch)
        if batch == newest:
            counting.add(part)
        else:
            replaced_s[part] = max(replaced_s.get(part, 0.0), _written_s(newest))
    return _Written(frozenset(counting), replaced_s)


def _written_s(batch: str) -> float:
    """Return when an addition or merger began, by its name."""
    try:
        return int(batch.rpartition("+")[2].partition("-")[0]) / 1000.0
    except ValueError:  # not of our making
        return time.time()
