"""Computes the predicted duration of each query from several replays, and its 80 % range."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from iqcar.replay.whatif.model import Model
from iqcar.tables.arrays import Floats

NEAR = 0.2
"""Change, as a share of the recorded duration, at which the difference of two replays and the
replay itself count about alike: near the recorded run the error of both replays is the same."""
WIDENED = 1.4
"""Factor of the half width that covers 80 % on worlds that break the model."""
OF_CHANGE, OF_ERROR, AT_LEAST = 0.15, 0.3, 0.01
"""Parts of the half width: of the change, of the check's error, and a share of the duration."""
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
    half = WIDENED * (
        inner.std(axis=0)
        + OF_CHANGE * np.abs(change)
        + OF_ERROR * np.nan_to_num(np.abs(error)) * recorded * (1 - near)
        + AT_LEAST * recorded
    )
    # What a query waits for others differs, too, when their work does: widened, like the rest.
    half = np.hypot(half, WIDENED * OF_80 * model.rerun_spread * predicted)
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


def reruns(model: Model) -> Iterable[str]:
    """Say by how much runs of a query differ, where the ranges cover that."""
    spread = float(np.median(model.rerun_spread)) if len(model.rerun_spread) else 0.0
    if spread > 0:
        yield (
            f"runs of the same query differ by {100 * OF_80 * spread:.0f} % (80 %) in this log: "
            "the ranges cover that"
        )
