"""Answers to what-if questions as JSON: versioned, described by ``whatif_types``."""

from __future__ import annotations

from iqcar.base.files.json_text import json_bytes
from iqcar.replay.whatif.plan_capacity import Plan
from iqcar.replay.whatif.removal_blame import RemovalBlame
from iqcar.replay.whatif.what_if import SCHEMA_VERSION, WhatIf
from iqcar.show.json.described import schema_text
from iqcar.show.json.whatif_types import WhatIfAnswer
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
) -> bytes:
    """Encode what was asked for; numbers nobody knows become null."""
    fields = {
        "iqcar_version": __version__,
        "schema_version": SCHEMA_VERSION,
        **({} if answer is None else answer.to_dict()),
        **({} if plan is None else {"plan": plan.to_dict()}),
        **({} if blame is None else {"removal_blame": blame.to_dict()}),
    }
    return json_bytes(fields, indent=1) + b"\n"
