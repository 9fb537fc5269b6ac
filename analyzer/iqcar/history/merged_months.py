"""Merges a store's small files into one per table and month, and removes those it replaced.

A question opens every file of the days that it asks about, so many small files cost most of its
time. What is merged counts as a new addition of the same applications: rows keep the name of their
addition, with that of the merger after it, which sorts after the first and before any later one.
So questions, additions and other mergers can go on meanwhile.

A merger notes what it has replaced in empty files of the store:
``replaced/cluster=NAME/month=YYYY-MM/OLD_by_NEW``. So no content of a file decides what is removed.
"""

from __future__ import annotations

import calendar
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from itertools import groupby
from urllib.parse import unquote

from iqcar.history.file_names import (
    BATCH,
    NO_DAY,
    Part,
    StoredFile,
    cluster_folder,
    new_batch,
    this_month,
    unfinished_since,
)
from iqcar.history.sound_files import sound_files
from iqcar.history.store_views import StoreView
from iqcar.history.stored_files import Store
from iqcar.history.stored_tables import APPLICATIONS, STORED

FOLDER = "replaced"
_REPLACED = re.compile(rf"cluster=([^/]*)/month=([^/]*)/({BATCH})_by_{BATCH}$")


def note_replaced(
    store: Store, cluster: str, month: str, batches: Iterable[str], merger: str
) -> None:
    """Note that what some additions wrote of a month is in the files of a merger, too."""
    for batch in batches:
        folder = f"{FOLDER}/{cluster_folder(cluster)}/month={month}"
        store.note(folder, f"{batch}_by_{merger}")


def replaced_parts(store: Store) -> dict[Part, tuple[str, ...]]:
    """Return the paths of the notes about each part that was replaced."""
    found: dict[Part, tuple[str, ...]] = {}
    for path in store.found(FOLDER):
        if name := _REPLACED.search(path):
            part = unquote(name[1]), name[2], name[3]
            found[part] = (*found.get(part, ()), path)
    return found


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

    Raises IqcarError if the store cannot be read or written.

    Returns how many files were merged.
    """
    files = [one for table in STORED for one in store.list(table)]
    replaced = replaced_parts(store)
    _remove_old(store, files, replaced)
    sizes: Counter[Part] = Counter()
    for one in files:
        sizes[one.part] += one.size
    whole = {one.part for one in files if one.table == APPLICATIONS.name} - replaced.keys()
    small = [
        one
        for one in files
        if one.part in whole and sizes[one.part] < ENOUGH_BYTES and one.day != NO_DAY
    ]
    small = _sound(store, small)
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
    year, number = map(int, month.split("-"))
    last = calendar.monthrange(year, number)[1]
    about = StoreView(store, f"{month}-01", f"{month}-{last:02d}", cluster)
    merger = new_batch(after=max(names))
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
    note_replaced(store, cluster, month, names, merger)


def _remove_old(
    store: Store, files: list[StoredFile], replaced: Mapping[Part, tuple[str, ...]]
) -> None:
    """Remove what was replaced an hour ago or abandoned a day ago, as names tell."""
    now = time.time()
    named = {one.part for one in files if one.table == APPLICATIONS.name}
    gone = {
        part: notes
        for part, notes in replaced.items()
        if now - min(_written_s(note.rpartition("_by_")[2]) for note in notes) > KEPT_S
    }
    old = [
        one.path
        for one in files
        if one.part in gone
        or (
            one.part not in named
            and one.part not in replaced
            and now - _written_s(one.batch) > ABANDONED_S
        )
    ]
    if not store.has_whole_files:
        old += [
            path
            for folder in (*(table.name for table in STORED), FOLDER)
            for path in store.found(folder)
            if now - (unfinished_since(path) or now) > ABANDONED_S
        ]
    store.remove(old)
    left = {one.part for one in files} - gone.keys()
    store.remove(note for part, notes in gone.items() if part not in left for note in notes)


def _sound(store: Store, files: list[StoredFile]) -> list[StoredFile]:
    """Leave out what any file of was set aside: a merger would lose it."""
    bad: set[Part] = set()
    with closing(store.connect()) as connection:
        for table in STORED:
            of_table = [one for one in files if one.table == table.name]
            sound = sound_files(store, connection, table, of_table)
            bad.update(one.part for one in of_table if one not in sound)
    return [one for one in files if one.part not in bad]


def _written_s(batch: str) -> float:
    """Return when an addition or merger began, by its name."""
    try:
        return int(batch.rpartition("+")[2].partition("-")[0]) / 1000.0
    except ValueError:  # not of our making
        return time.time()
