"""Lays out what iQCAR as printed says, vertex by vertex."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from iqcar.diagnosis import Diagnosis
from iqcar.tables import texts


def printed_blame_to_list(diagnosis: Diagnosis, printed: pd.DataFrame) -> list[dict[str, Any]]:
    """Lay out the rows of ``PRINTED_BLAME``: ids and names in place of rows of tables."""
    tables = diagnosis.tables
    ids, hosts = texts(tables.queries, "query_id"), texts(tables.hosts, "host")
    stage_ids = tables.stages["stage_id"].tolist()

    def named(names: Sequence[Any], row: int) -> Any:
        return names[row] if row >= 0 else None

    return [
        {
            "target_query_id": ids[row["target"]],
            "level": row["level"],
            "stage_id": named(stage_ids, row["stage"]),
            "resource": row["resource"] or None,
            "request": row["request"] or None,
            "host": named(hosts, row["host"]),
            "source_query_id": named(ids, row["source_query"]),
            "source_stage_id": named(stage_ids, row["source_stage"]),
            "contribution": row["contribution"],
            "dor": row["dor"],
        }
        for row in printed.to_dict("records")
    ]
