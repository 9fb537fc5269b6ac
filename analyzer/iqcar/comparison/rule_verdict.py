"""Judges the measured effect of rules against queries without a rule and against outside load.

One function for whoever reports an effect: `iqcar rules check`, the demo, and the live loop.
"""

from __future__ import annotations

from dataclasses import dataclass

from iqcar.base.units import change_words, percent
from iqcar.enums import Kind
from iqcar.rules.rule import LEAST_GAIN_SHARE

OUTSIDE_DIFFERENCE = 0.1
"""Difference between two runs in the share of the hosts' processors that processes other than
the executors used, from which the runs are not comparable. A tenth of two cores is as much as a
task that computes gets from a share of 1/5 less: durations change by more than rules do."""
CONTROLS_OFF_PERCENT = 10.0
"""Difference between predicted and actual change of the queries that no rule is about, in
percentage points, from which something else than the rules changed. Runs of one query on a quiet
machine differ by up to 7 %."""
AS_MUCH = 0.5
"""Part of the victims' change from which the controls moved as much. Whatever moved the controls
moved the victims, too, and queries differ by a factor of two in what a busy machine costs them."""


class RuleVerdict(Kind):
    """What became of a rule's victims."""

    HELPED = "helped", "They got faster by 1 % or more."
    NO_CHANGE = "no-change", "They changed by less than 1 %."
    SLOWER = "slower", "They got slower by 1 % or more."
    UNKNOWN = "unknown", "None of them ended in both runs."
    DISTURBED = (
        "disturbed",
        "Queries that no rule is about changed as much, or other processes loaded the hosts more "
        "in one run than in the other.",
    )


@dataclass(frozen=True)
class JudgedEffect:
    """A verdict, and in words what happened; the sentence lacks its subject, the victims."""

    verdict: RuleVerdict
    sentence: str


def judge_effect(
    change_percent: float | None,
    controls_percent: float | None,
    outside: tuple[float | None, float | None] = (None, None),
) -> JudgedEffect:
    """Judge what became of the victims of rules.

    ``change_percent``: change of their duration, below 0 for faster; None where they did not end in
    both runs. ``controls_percent``: change of the queries that no rule is about, less what was
    predicted of them; None without any. ``outside``: share of the hosts' processors that other
    processes used in each run; None if unknown. Returns ``DISTURBED`` where something else moved as
    much as the victims did.
    """
    if change_percent is None:
        return JudgedEffect(RuleVerdict.UNKNOWN, "are not known to have ended before and after")
    took = f"took {change_words(change_percent)} time"
    if loads_differ(*outside):
        other = "on hosts that other processes loaded differently"
        return JudgedEffect(RuleVerdict.DISTURBED, f"{took} {other}")
    if controls_percent is not None and _moved(change_percent, controls_percent):
        other = f"queries that no rule is about {change_words(controls_percent)}"
        said = f"{took}, and {other} more than was expected of them"
        return JudgedEffect(RuleVerdict.DISTURBED, said)
    least = 100 * LEAST_GAIN_SHARE
    if change_percent <= -least:
        return JudgedEffect(RuleVerdict.HELPED, f"took {percent(-change_percent / 100)} less time")
    if change_percent >= least:
        return JudgedEffect(RuleVerdict.SLOWER, f"took {percent(change_percent / 100)} more time")
    return JudgedEffect(RuleVerdict.NO_CHANGE, "took as long as before")


def loads_differ(before: float | None, after: float | None) -> bool:
    """Tell whether other processes loaded the hosts differently; not if one is unknown."""
    if before is None or after is None:
        return False
    return abs(before - after) >= OUTSIDE_DIFFERENCE


def _moved(change: float, controls: float) -> bool:
    """Whether the controls moved as much as the victims, or, where these did not, noticeably."""
    least = 100 * LEAST_GAIN_SHARE
    if abs(change) < least:
        return abs(controls) >= CONTROLS_OFF_PERCENT
    return abs(controls) >= max(least, AS_MUCH * abs(change))
