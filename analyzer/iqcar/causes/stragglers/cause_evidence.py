"""Holds marks: pairs of straggler and feature, with the numbers that make the feature a cause."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from iqcar.tables.arrays import Flags, Floats, Ints

INTER, INTRA, BOTH, ELSEWHERE, EXECUTORS = range(5)
"""Peers that a feature stood out from: those on other hosts, on the same host, both; those on
other hosts while the others on its host were like it; and those on other executors while the others
on its executor were like it."""


@dataclass(frozen=True)
class Marks:
    """One entry per straggler and feature that is a cause of it.

    task: (m,) position among the compared tasks.
    feature: (m,) position among the features; −1 for a slow host.
    value: the feature as rules compare it: an amount, a share, ms waited.
    peer_mean: mean of the peers it stood out from; what was to be expected for a wait.
    quantile: quantile of the stage that it was above; NaN where no rule asks.
    ratio: value / peer_mean; inf over 0 and next to it, NaN where no rule asks.
    peers: `INTER`, `INTRA`, `BOTH`, `ELSEWHERE` or `EXECUTORS`.
    explained: share of the straggler's time over the median; NaN unless measured.
    """

    task: Ints
    feature: Ints
    value: Floats
    peer_mean: Floats
    quantile: Floats
    ratio: Floats
    peers: Ints
    explained: Floats

    @classmethod
    def make(
        cls, task: Ints, feature: int, value: Floats, peer_mean: Floats, **more: object
    ) -> Marks:
        """Make the marks of one feature; what is not given is unknown."""
        n = len(task)
        unknown = np.full(n, np.nan)
        columns = {"quantile": unknown, "ratio": unknown, "explained": unknown}
        columns["peers"] = np.full(n, BOTH)
        return cls(
            task=task, feature=np.full(n, feature), value=value, peer_mean=peer_mean,
            **{**columns, **more},  # type: ignore[arg-type]
        )  # fmt: skip

    def kept(self, which: Flags) -> Marks:
        """Return some of the marks."""
        return Marks(**{f.name: getattr(self, f.name)[which] for f in fields(self)})

    @classmethod
    def join(cls, parts: Sequence[Marks]) -> Marks:
        """Put marks together, ordered by task and feature."""
        if not parts:
            parts = [cls.make(np.zeros(0, np.int64), 0, np.zeros(0), np.zeros(0))]
        columns = {f.name: np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(cls)}
        order = np.lexsort((columns["feature"], columns["task"]))
        return cls(**{name: values[order] for name, values in columns.items()})
