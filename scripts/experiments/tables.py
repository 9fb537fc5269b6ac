"""What all tables of results are made of: Markdown, and numbers as they stand in it."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def seconds(values: Sequence[float]) -> str:
    """Median and range."""
    if len(values) == 1:
        return f"{values[0]:.1f} s"
    return f"{statistics.median(values):.1f} s ({min(values):.1f} … {max(values):.1f})"


def percent(share: float) -> str:
    """A change in percent."""
    return f"{share:+.0%}"


def correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Kendall's τ-b of a handful of numbers; 0 where one side is constant."""
    pairs = [
        (math.copysign(a != b, a - b), math.copysign(c != d, c - d))
        for (a, c), (b, d) in itertools.combinations(zip(first, second, strict=True), 2)
    ]
    scale = math.sqrt(sum(x * x for x, _ in pairs) * sum(y * y for _, y in pairs))
    return sum(x * y for x, y in pairs) / scale if scale else 0.0
