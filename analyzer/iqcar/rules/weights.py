"""Find small whole weights of FAIR pools that are nearly in the proportion of real numbers."""

from __future__ import annotations

from collections.abc import Sequence

RATIO_ERROR = 0.05
"""The ratio of two weights is within this part of the ratio asked for. Priorities are ranks, and
slots are whole too: a finer proportion would promise what a scheduler does not keep."""

MOST_STEPS = 21
"""The smallest weight never has to be larger: rounding then changes a weight by less than 0.5/21,
and the ratio of two by less than :data:`RATIO_ERROR`."""

MAX_RATIO = 100.0
"""The largest weight over the smallest, at most: with less than a hundredth of the slots a query
starves on any cluster. It also bounds weights to 2100."""


def whole_weights(wanted: Sequence[float]) -> list[int]:
    """Round to the smallest whole numbers in nearly the same proportion.

    Parameters
    ----------
    wanted : (n,) numbers above 0
        What is smaller than the largest over :data:`MAX_RATIO` counts as that much.

    Returns
    -------
    list of int
        (n,) each 1 or more; ratios within :data:`RATIO_ERROR` of those wanted.
    """
    if not wanted:
        return []
    bounded = bounded_ratios(wanted)
    least = min(bounded)
    for steps in range(1, MOST_STEPS + 1):
        exact = [value / least * steps for value in bounded]
        rounded = [round(value) for value in exact]
        errors = [have / want for have, want in zip(rounded, exact, strict=True)]
        if max(errors) <= min(errors) * (1 + RATIO_ERROR):
            break
    return rounded


def bounded_ratios(wanted: Sequence[float]) -> list[float]:
    """Raise what is smaller than the largest over :data:`MAX_RATIO`; all divided by the largest."""
    most = max(wanted)
    return [max(value / most, 1.0 / MAX_RATIO) for value in wanted]
