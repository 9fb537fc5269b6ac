"""Judge a predicted effect: whether a rule helps, gains nothing, or harms."""

from __future__ import annotations

from iqcar.enums import Kind

SLOWER_SHARE = 0.05
"""A query counts as slower from this share of its duration on. Two runs of one query on a shared
cluster differ by as much."""

LEAST_GAIN_SHARE = 0.01
"""Victims gain from this share of their duration on; below it two runs on an idle cluster differ
by chance."""

TWICE_SHARE = 1.0
"""One query that gets slower by this share of its duration takes twice as long. Its owner does not
accept that for a gain of others, whatever the sum over all queries says."""


class Outlook(Kind):
    """What a replay says about a rule."""

    HELPS = "helps", "Its victims get faster by more than the replay's own error."
    UNSURE = "unsure", "Its victims get faster, but by no more than the replay's own error."
    NO_GAIN = "no-gain", "Its victims do not get faster by 1 %."
    HARMS = (
        "harms",
        "All queries together take 5 % longer, or one query takes twice as long, or the victims do "
        "not gain and they or all queries together get slower by more than the replay's own error.",
    )


def outlook_of(gain: float, cost: float, error: float | None, slowest: float = 0.0) -> Outlook:
    """Judge the predicted changes of a run under a rule.

    Returns: The error excuses no harm of 5 % of all queries, and no query that takes twice as long:
    a rule of which that is not known well is not applied either.

    gain: Change of the victims' duration, as a share of it; below 0 they get faster.
    cost: The same of all queries together.
    error: The replay's own error, as a share of a query's duration; None if unknown.
    slowest: Change of the query that gets slower by most, of those whose delay a person notices.
    """
    if cost >= SLOWER_SHARE or slowest >= TWICE_SHARE:
        return Outlook.HARMS
    if gain > -LEAST_GAIN_SHARE:
        noise = max(LEAST_GAIN_SHARE, error or 0.0)
        return Outlook.HARMS if max(gain, cost) > noise else Outlook.NO_GAIN
    return Outlook.UNSURE if error is None or -gain <= error else Outlook.HELPS
