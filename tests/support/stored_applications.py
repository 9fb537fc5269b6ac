"""Applications of one query in a store, without logs: what counts of them is asked by name."""

from __future__ import annotations

import pandas as pd

from iqcar.history.store_views import view_of
from iqcar.history.stored_files import APPLICATIONS, QUERIES, STORED, Store, new_batch, write_batch
from tests.support.nightly_logs import DAY_MS, FIRST_MS

VALUES = {"str": "", "float64": 0.0, "int64": 0, "bool": True}
ROWS = {
    table.name: table.frame({c.name: [VALUES[c.dtype]] for c in table.columns}) for table in STORED
}


def rows_of(application: str, name: str, start_ms: float) -> dict[str, pd.DataFrame]:
    """Rows of one application with one query."""
    told = {"application_id": application, "name": name, "start_ms": start_ms}
    named = (APPLICATIONS.name, QUERIES.name)
    return {
        table: rows.assign(**(told if table in named else {"application_id": application}))
        for table, rows in ROWS.items()
    }


def keep(store: Store, application: str, name: str = "", day: int = 0) -> None:
    """Add an application that started on a day after :data:`FIRST_MS`."""
    batch = new_batch()
    rows = rows_of(application, name, FIRST_MS + DAY_MS * day)
    write_batch(store, "yarn", batch, {k: v.assign(batch=batch) for k, v in rows.items()})


def names(store: Store) -> dict[str, str]:
    """The name of each application as its queries tell it."""
    found = view_of(store).ask("SELECT application_id, name FROM queries ORDER BY ALL")
    assert not found["application_id"].duplicated().any()
    return dict(found.itertuples(index=False))
