"""Answers to what-if questions as JSON: versioned, described by ``whatif.schema.json``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from iqcar.version import __version__

if TYPE_CHECKING:
    from iqcar.whatif.what_if import WhatIf


def whatif_schema() -> str:
    """Return the JSON Schema of what ``iqcar whatif`` writes, as text."""
    return Path(__file__).with_name("whatif.schema.json").read_text(encoding="utf-8")


def whatif_to_json(answer: WhatIf) -> bytes:
    """Encode an answer; numbers nobody knows become null."""
    fields = {"iqcar_version": __version__, **answer.to_dict()}
    return msgspec.json.format(msgspec.json.encode(fields), indent=1) + b"\n"
