"""What a timeline's page is given, taken apart."""

from __future__ import annotations

import base64

import numpy as np

from iqcar.diagnosis import Diagnosis
from iqcar.show.pictures.timeline_payload import timeline_payload

KINDS = {"u1": np.uint8, "u2": "<u2", "u4": "<u4", "f4": "<f4"}


def payload_of(diagnosis: Diagnosis) -> dict:
    """What the timeline shows of a diagnosis."""
    targets = diagnosis.targets
    return timeline_payload(diagnosis.tables, diagnosis.waits, diagnosis.graph, targets)


def column(packed: dict[str, str]) -> np.ndarray:
    """Unpack a column as the page does."""
    return np.frombuffer(base64.b64decode(packed["b"]), KINDS[packed["t"]])
