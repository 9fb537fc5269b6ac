"""Answers to what-if questions as JSON: versioned, described by ``whatif.schema.json``."""

from __future__ import annotations

from pathlib import Path

from iqcar.base.files.json_text import json_bytes
from iqcar.replay.whatif.plan_capacity import Plan
from iqcar.replay.whatif.removal_blame import RemovalBlame
from iqcar.replay.whatif.what_if import SCHEMA_VERSION, WhatIf
from iqcar.version import __version__


def whatif_schema() -> str:
    """Return the JSON Schema of what ``iqcar whatif`` writes, as text."""
    return Path(__file__).with_name("whatif.schema.json").read_text(encoding="utf-8")


def whatif_to_json(
    answer: WhatIf | None, plan: Plan | None = None, blame: RemovalBlame | None = None
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
