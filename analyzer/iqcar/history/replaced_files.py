"""Tell by names alone which files of a store can go: replaced by a merger, or never finished.

A merger notes what it has replaced in empty files of the store:
``replaced/cluster=NAME/month=YYYY-MM/OLD_by_NEW``. So nothing that any file holds decides what is
removed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING
from urllib.parse import unquote

from iqcar.history.file_names import BATCH, Part, cluster_folder

if TYPE_CHECKING:
    from iqcar.history.stored_files import Store
    from iqcar.tables import TableSpec

FOLDER = "replaced"
_REPLACED = re.compile(rf"cluster=([^/]*)/month=([^/]*)/({BATCH})_by_{BATCH}$")
_UNFINISHED = re.compile(r"/\.(\d{14})-[0-9a-f]{8}\.parquet\.[0-9a-f]{8}$")
"""What a writer leaves that was killed before it could rename its file."""


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


def unfinished(store: Store, table: TableSpec) -> Iterator[tuple[str, float]]:
    """Yield what killed writers left of a table: path, and when they began, in s."""
    if store.has_whole_files:
        return
    for path in store.found(table.name):
        if name := _UNFINISHED.search(path):
            yield path, int(name[1]) / 1e3
