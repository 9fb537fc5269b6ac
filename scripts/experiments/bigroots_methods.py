"""The compared methods: each returns the resources that it names as causes of each straggler."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from bigroots_scoring import RESOURCES, Flags
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from iqcar.causes.stragglers.features import (
    CPU,
    DISK,
    NETWORK,
    PAPER_FEATURES,
    TaskFeatures,
    after,
    before,
)
from iqcar.causes.stragglers.root_causes import ComparedTasks, cause_names, find_marks
from iqcar.causes.stragglers.straggler_result import Marks, StragglerSettings
from iqcar.enums import CauseEvidence
from tests.support.naive_bigroots import EQUATIONS
from tests.support.pearson_baseline import PccSettings, pcc_marks

CAUSES = dict(zip((CPU, DISK, NETWORK), RESOURCES, strict=True))
OURS = StragglerSettings()
PAPER = replace(EQUATIONS, least_tasks=OURS.least_tasks)
"""The paper's method on the stages that ours looks at, so that both judge the same stragglers."""
STEPS = 21
"""Values of a threshold that a ROC curve is drawn from."""


@dataclass(frozen=True)
class Judged:
    """Stragglers and the features of all tasks, in two forms.

    features: with everything recorded
    paper: with the paper's features only
    edgeless: the same, in hosts that were always as busy: edge detection drops nothing
    compared: the tasks compared
    rows: the stragglers' positions among them
    """

    features: TaskFeatures
    paper: TaskFeatures
    edgeless: TaskFeatures
    compared: ComparedTasks
    rows: NDArray[np.int64]

    @classmethod
    def from_features(cls, features: TaskFeatures, within: NDArray[np.bool_]) -> Judged:
        """Choose the stragglers among the tasks (rows of the features) that are meant."""
        compared = ComparedTasks.from_features(features, OURS)
        rows = np.flatnonzero(compared.straggler & within[compared.rows])
        paper = replace(features, features=PAPER_FEATURES)
        known = [f for f in PAPER_FEATURES if before(f) in features.frame]
        edges = {name: np.inf for f in known for name in (before(f), after(f))}
        return cls(
            features, paper, replace(paper, frame=paper.frame.assign(**edges)), compared, rows
        )

    def named(self, features: TaskFeatures, marks: Marks) -> Flags:
        """Which resources the marks name as causes of which straggler."""
        number = np.full(len(self.compared.rows), -1)
        number[self.rows] = np.arange(len(self.rows))
        found = np.zeros((len(self.rows), len(RESOURCES)), bool)
        for task, cause in zip(marks.task.tolist(), cause_names(features, marks), strict=True):
            if cause in CAUSES and number[task] >= 0:
                found[number[task], RESOURCES.index(CAUSES[cause])] = True
        return found

    def found_by(self, features: TaskFeatures, settings: StragglerSettings) -> Flags:
        """What BigRoots, or our variant of it, names."""
        return self.named(features, find_marks(features, self.compared, settings))

    def pcc(self, settings: PccSettings) -> Flags:
        """What the baseline names."""
        return self.named(self.paper, pcc_marks(self.paper, self.compared, settings))


METHODS: dict[str, Callable[[Judged], Flags]] = {
    "measured": lambda j: j.found_by(j.features, OURS),
    "BigRoots": lambda j: j.found_by(j.paper, PAPER),
    "BigRoots without edges": lambda j: j.found_by(j.edgeless, PAPER),
    "PCC": lambda j: j.pcc(PccSettings()),
}
"""Each with its named defaults; nothing was fitted to a run."""


def sweeps(judged: Judged) -> Iterator[tuple[str, list[float], list[Flags]]]:
    """Move one threshold of each method over its range; the others keep their defaults.

    Yields the method, the values, and what it names with each.
    """
    shares = np.linspace(0.0, 1.0, STEPS).tolist()
    ratios = np.geomspace(1.0, 16.0, STEPS).tolist()
    ours = [replace(OURS, explains=share, evidence=CauseEvidence.AUTO) for share in shares]
    yield "measured", shares, [judged.found_by(judged.features, one) for one in ours]
    paper = [replace(PAPER, ratio=ratio) for ratio in ratios]
    yield "BigRoots", ratios, [judged.found_by(judged.paper, one) for one in paper]
    edgeless = [judged.found_by(judged.edgeless, one) for one in paper]
    yield "BigRoots without edges", ratios, edgeless
    pcc = [PccSettings(pearson=share) for share in shares]
    yield "PCC", shares, [judged.pcc(one) for one in pcc]


def all_pcc(judged: Judged) -> Iterator[tuple[PccSettings, Flags]]:
    """The baseline at every pair of its two thresholds, for the exhaustive search of §IV-B1."""
    for pearson in np.linspace(0.0, 0.95, STEPS - 1).tolist():
        for quantile in np.linspace(0.0, 0.95, STEPS - 1).tolist():
            settings = PccSettings(pearson, quantile)
            yield settings, judged.pcc(settings)
