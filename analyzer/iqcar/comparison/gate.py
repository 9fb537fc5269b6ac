"""Decides whether a comparison passes a gate: no query on both sides slower than allowed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from iqcar.base.units import duration, read_share, read_time
from iqcar.comparison.comparison import Comparison
from iqcar.enums import ChangeVerdict
from iqcar.errors import UsageError
from iqcar.tables import texts


class Limit(NamedTuple):
    """How much slower a query may be; one of the two is set."""

    query: str
    """The query that it is for; empty for all others."""
    share: float
    """Relative change, such as 0.1; NaN if `ms` is set."""
    ms: float
    """Change of a run of the query; NaN if `share` is set."""

    def __str__(self) -> str:
        return duration(self.ms) if math.isnan(self.share) else f"{self.share * 100:g} %"


class Gate(NamedTuple):
    """Whether the comparison passed, and why not: a line for each query that failed."""

    passed: bool
    failures: tuple[str, ...]

    def __bool__(self) -> bool:
        return self.passed


def parse_limit(text: str | float) -> Limit:
    """Read a limit: 0.1, ``10%``, ``500ms``, ``2s`` or ``query=20%``.

    Raises UsageError if it is none of them.
    """
    if not isinstance(text, str):
        return Limit("", _amount(text, str(text)), math.nan)
    query, _, amount = text.rpartition("=")
    if amount.strip().endswith("%"):
        return Limit(query, _amount(read_share(amount), text), math.nan)
    if amount.strip()[-1:].isdigit():
        raise _wrong(text)
    return Limit(query, math.nan, _amount(read_time(amount), text))


def _amount(value: float | None, text: str) -> float:
    if value is None or not (math.isfinite(value) and value >= 0):
        raise _wrong(text)
    return value


def _wrong(text: str) -> UsageError:
    return UsageError(f"is no limit: {text!r}", "--fail-on", "give 10%, 500ms or QUERY=20%")


def check_gate(
    comparison: Comparison, limits: Sequence[str | float], *, new_plan: bool, strict: bool
) -> Gate:
    """Check every query on both sides, the largest change first.

    A query fails a limit if it changed, is slower by more than the limit, and the interval of its
    change lies above the comparison's margin as a whole.
    """
    parsed = [parse_limit(limit) for limit in limits]
    for limit in parsed:
        if limit.query:
            comparison.find(limit.query)  # a limit for a misspelt query would never fail
    effects = comparison.effects
    verdict = texts(effects, "verdict")
    failures = []
    order = effects["contribution_ms"].abs().to_numpy()[comparison.common].argsort(kind="stable")
    for row in comparison.common[order].tolist():
        name = comparison.name(row)
        before, after = (float(effects[key].iloc[row]) for key in ("before_ms", "after_ms"))
        times = f"{duration(before)} → {duration(after)}"
        own = [limit for limit in parsed if limit.query and comparison.find(limit.query) == row]
        for limit in own or [limit for limit in parsed if not limit.query]:
            over = after - before > limit.ms or after / before - 1 > limit.share
            sure = effects["log_low"].iloc[row] > math.log1p(comparison.margin)
            if verdict[row] == ChangeVerdict.CHANGED and over and sure:
                failures.append(f"{name}: {times}, slower than allowed ({limit})")
            elif strict and verdict[row] == ChangeVerdict.CANNOT_TELL:
                needed = int(effects["runs_needed"].iloc[row])
                failures.append(
                    f"{name}: {times}, cannot tell whether it changed (needs {needed} runs a side)"
                )
        if new_plan and row in comparison.new_graphs:
            failures.append(f"{name}: its stages are others than before")
    return Gate(not failures, tuple(failures))
