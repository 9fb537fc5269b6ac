"""Wasted work: what failed, killed and repeated attempts cost each query, and what helps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from iqcar.base import limits
from iqcar.diagnosis import Diagnosis
from iqcar.say.wasted_lines import WastedLine
from iqcar.show.terminal.wasted_section import wasted_advice, wasted_sentence


def wasted_part(diagnosis: Diagnosis, lines: Sequence[WastedLine]) -> dict[str, Any]:
    """Lay out wasted work.

    Returns
    -------
    dict
        sentence; rows: the costliest lines; left_out: lines beyond them; advice: name and advice.
    """
    shown = lines[: limits.MOST_GROUPS]
    return {
        "sentence": wasted_sentence(diagnosis.wasted),
        "rows": shown,
        "left_out": len(lines) - len(shown),
        "advice": wasted_advice(shown),
    }
