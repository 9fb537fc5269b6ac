"""Tables as they are declared."""

from __future__ import annotations

from iqcar.tables import Tables
from iqcar.tables.specs import SPECS


def test_what_is_added_to_a_table_without_rows_no_other_table_has() -> None:
    for spec in SPECS:
        first = spec.empty()
        first["more"] = []
        first[spec.columns[0].name] = first[spec.columns[0].name].astype(object)
        again = getattr(Tables.empty(), spec.name)
        assert list(again) == spec.column_names()
        assert again.dtypes.equals(spec.frame({c.name: [] for c in spec.columns}).dtypes)
