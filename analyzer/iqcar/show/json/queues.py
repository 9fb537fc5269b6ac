"""Encodes plans for the queues of a shared cluster."""

from __future__ import annotations

import msgspec

from iqcar.base.files.json_text import json_bytes
from iqcar.replay.queues.queue_plan import QueueResult
from iqcar.show.json.described import schema_text


def queues_to_json(result: QueueResult) -> bytes:
    """Encode a plan."""
    return json_bytes(msgspec.to_builtins(result), indent=2) + b"\n"


def queues_schema() -> str:
    """Return the JSON Schema of what ``iqcar rules compile --for`` a cluster writes, as text."""
    return schema_text(
        QueueResult,
        title="Plan of iqcar rules compile --for",
        identity="https://iqcar.org/queues.schema.json",
    )
