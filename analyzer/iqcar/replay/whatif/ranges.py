"""Computes the predicted duration of each query from several replays, and its 80 % range."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from iqcar.base.units import percent
from iqcar.replay.whatif.model import Model
from iqcar.tables.arrays import Floats

NEAR = 0.2
"""Change, as a share of the recorded duration, at which the difference of two replays and the
replay itself count about alike: near the recorded run the error of both replays is the same."""
WIDENED = 1.25
"""Factor of the half width that covers 80 % on worlds that break the model."""
OF_CHANGE, AT_LEAST = 0.15, 0.01
"""Parts of the half width: of the change, and a share of the duration."""
OF_ERROR, OF_ERROR_FAR, OF_ERROR_BEYOND, BEYOND = 0.15, 0.2, 0.5, 0.15
"""Parts of the half width by the check's error: of all of it, far from the recorded run of more of
it, and of what is beyond this."""
OF_RERUNS = 1.4
"""Factor of what runs of a query differ by, which is estimated from few."""
OF_80 = 1.28
"""Standard deviations of a normal distribution that hold 80 % on both sides."""
ANSWERED = 0.5
"""Error of the check, as a share of the recorded duration, up to which a query is answered, and the
median up to which the run is."""


def predicted_ranges(
    model: Model, inner: Floats, outer: Sequence[Floats]
) -> tuple[Floats, Floats, Floats]:
    """Return the predicted duration of each query, and the ends of its 80 % range.

    inner: (members, n_queries) durations by the model.
    outer: durations by other explanations of the record, which the ranges cover.
    """
    recorded, error = model.recorded_ms, model.error
    predicted = inner.mean(axis=0)
    change = predicted - recorded
    near = np.exp(-np.abs(change) / (NEAR * recorded))
    off = np.nan_to_num(np.abs(error))
    of_error = OF_ERROR * off + OF_ERROR_FAR * off * (1 - near)
    of_error += OF_ERROR_BEYOND * np.maximum(off - BEYOND, 0.0)
    half = WIDENED * (
        inner.std(axis=0) + OF_CHANGE * np.abs(change) + (of_error + AT_LEAST) * recorded
    )
    # What a query waits for others differs, too, when their work does: widened, like the rest.
    half = np.hypot(half, OF_RERUNS * OF_80 * model.rerun_spread * predicted)
    low, high = np.maximum(predicted - half, 0.0), predicted + half
    for other in outer:
        low, high = np.minimum(low, other), np.maximum(high, other)
    return predicted, low, high


def blended(base: Floats, after: Floats, recorded: Floats) -> Floats:
    """Trust the difference of two replays near the recorded run, the replay itself far from it."""
    difference = recorded + after - base
    near = np.exp(-np.abs(after - base) / (NEAR * recorded))
    blended: Floats = np.maximum(near * difference + (1 - near) * after, 0.0)
    return blended


def far_off(model: Model) -> Iterable[str]:
    """Say of how many queries the check is off by much, so that their ranges are wide."""
    off = np.abs(model.error)
    count = int(((off > BEYOND) & (off <= ANSWERED)).sum())
    if count:
        yield (
            f"the replay of {count} quer{'y' if count == 1 else 'ies'} as "
            f"{'it was' if count == 1 else 'they were'} is off by {100 * BEYOND:.0f} to "
            f"{percent(ANSWERED)}: {'its range is' if count == 1 else 'their ranges are'} wider"
        )


def reruns(model: Model) -> Iterable[str]:
    """Say by how much runs of a query differ, where the ranges cover that."""
    spread = float(np.median(model.rerun_spread)) if len(model.rerun_spread) else 0.0
    if spread > 0:
        yield (
            f"runs of the same query differ by {percent(OF_80 * spread)} (80 %) in this log: "
            "the ranges cover that"
        )
