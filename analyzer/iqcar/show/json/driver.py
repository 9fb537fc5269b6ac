"""Time in the driver as JSON, query by query."""

from __future__ import annotations

from typing import Any

from iqcar.diagnosis import Diagnosis
from iqcar.show.json.plain import plain


def driver_to_list(diagnosis: Diagnosis) -> list[dict[str, Any]]:
    """Lay out what each query waited for in the driver: one entry per query."""
    driver = diagnosis.driver
    columns = driver.of_queries()
    found: list[dict[str, Any]] = [
        {**{name.removeprefix("driver_"): plain(ms) for name, ms in row.items()}, "work": []}
        for row in (
            dict(zip(columns, values, strict=True))
            for values in zip(*(column.tolist() for column in columns.values()), strict=True)
        )
    ]
    for one in driver.work.to_dict("records"):
        told = {str(name): plain(value) for name, value in one.items() if name != "query"}
        found[one["query"]]["work"].append(told)
    return found
