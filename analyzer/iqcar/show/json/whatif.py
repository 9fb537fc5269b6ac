"""Answers to what-if questions as JSON: versioned, described by ``whatif_types``."""

from __future__ import annotations

from typing import Any

import pandas as pd

from iqcar.base.files.json_text import json_bytes
from iqcar.replay.whatif.plan_capacity import Plan
from iqcar.replay.whatif.removal_blame import RemovalBlame
from iqcar.replay.whatif.what_if import SCHEMA_VERSION, WhatIf
from iqcar.show.json.described import schema_text
from iqcar.show.json.plain import plain
from iqcar.show.json.whatif_types import WhatIfAnswer
from iqcar.tables import Tables, texts
from iqcar.version import __version__


def whatif_schema() -> str:
    """Return the JSON Schema of what ``iqcar whatif`` writes, as text."""
    return schema_text(
        WhatIfAnswer,
        title="iqcar whatif",
        identity="https://iqcar.org/whatif.schema.json",
        dependent={
            "do": [
                "self_check",
                "capacities",
                "queries",
                "total",
                "assumptions",
                "refused",
                "devices",
            ]
        },
    )


def whatif_to_json(
    answer: WhatIf | None,
    plan: Plan | None = None,
    blame: RemovalBlame | None = None,
    *,
    printed: tuple[Tables, pd.DataFrame] | None = None,
) -> bytes:
    """Encode what was asked for; numbers nobody knows become null.

    printed: the tables, and ``PRINTED_READING`` of them.
    """
    fields = {
        "iqcar_version": __version__,
        "schema_version": SCHEMA_VERSION,
        **({} if answer is None else answer.to_dict()),
        **({} if plan is None else {"plan": plan.to_dict()}),
        **({} if blame is None else {"removal_blame": blame.to_dict()}),
        **({} if printed is None else {"printed": _printed(*printed)}),
    }
    return json_bytes(fields, indent=1) + b"\n"


def _printed(tables: Tables, printed: pd.DataFrame) -> list[dict[str, Any]]:
    ids, names = texts(tables.queries, "query_id"), texts(tables.queries, "name")
    return [
        {
            "query_id": ids[row["query"]],
            "name": names[row["query"]],
            **{str(name): plain(value) for name, value in row.items() if name != "query"},
        }
        for row in printed.to_dict("records")
    ]
