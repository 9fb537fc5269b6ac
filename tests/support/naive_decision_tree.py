"""Information gain straight from Quinlan's definition, one question at a time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

Row = dict[str, Any]


def bits(labels: Sequence[Any]) -> float:
    """Entropy of labels."""
    return -sum(n / len(labels) * math.log2(n / len(labels)) for n in Counter(labels).values())


def unknown(value: Any) -> bool:
    """Whether a value is None or NaN."""
    return value is None or value != value


def best_ratio(rows: list[Row], sides: list[int]) -> float:
    """Largest gain ratio among parameters whose best question gains the mean or more; 0 if none."""
    gains = []
    for parameter in {name for row in rows for name in row}:
        values = [row[parameter] for row in rows]
        questions = []
        for asked in {value for value in values if not unknown(value)}:
            answers = [
                None
                if unknown(value)
                else value == asked
                if isinstance(asked, str)
                else value > asked
                for value in values
            ]
            known = [(a, side) for a, side in zip(answers, sides, strict=True) if a is not None]
            if len({a for a, _ in known}) < 2:
                continue
            inside = sum(
                len(part) / len(known) * bits(part)
                for which in (True, False)
                if (part := [side for a, side in known if a is which])
            )
            share = len(known) / len(rows)
            gain = share * (bits([side for _, side in known]) - inside)
            questions.append((round(gain, 9), gain / bits(answers)))
        if questions:
            most = max(gain for gain, _ in questions)
            if most > 1e-9:
                # Questions of equal gain about one parameter may have different ratios.
                gains.append((most, [ratio for gain, ratio in questions if gain == most]))
    if not gains:
        return 0.0
    mean = sum(gain for gain, _ in gains) / len(gains)
    return max(max(ratios) for gain, ratios in gains if gain >= mean - 1e-9)
