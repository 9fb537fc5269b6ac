"""Declares the thresholds of the search for causes, each with its default and the reason for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from iqcar.causes.stragglers.thresholds import Thresholds
from iqcar.enums import CauseEvidence

PAPER = "paper"
"""Word that stands for :meth:`StragglerSettings.of_the_paper` in a text of settings."""


@dataclass(frozen=True)
class StragglerSettings(Thresholds):
    """What counts as a straggler, and what as its cause (BigRoots §III).

    The paper prints 1.5, 0.2 and the two categories of peers. It tunes λq, λp, λe and the edge
    width by experiment and prints none of them; ours were chosen on stages with planted causes.
    """

    straggler: float = 1.5
    """A straggler took more than this times the stage's median duration (§II-A, from Mantri)."""
    quantile: float = 0.8
    """λq: a cause lies above this quantile of its stage (eq. 5). A fifth of a stage's tasks may
    share a cause, as many as one slow host of five runs."""
    ratio: float = 1.5
    """λp: a cause is more than this times its peers' mean (eq. 5); what is not as far off as the
    duration does not explain it."""
    edge: float = 0.5
    """λe: use of the host that was not at least this share of itself right before or right after
    the task was the task's own (eq. 6, read as its text says: drop it if both edges are low); 0 is
    no edge detection."""
    edge_ms: float = 3000.0
    """Width of the windows before and after the task: three samples of a second."""
    floor: float = 0.2
    """A time counts from this share of the task's duration on (§III-B)."""
    explains: float = 0.25
    """A measured wait counts if it explains this share of the straggler's time over the median:
    with less, at least three quarters of the delay had another cause."""
    least_tasks: int = 4
    """Stages of fewer tasks have no stragglers: their median is one of the tasks compared."""
    least_peers: int = 2
    """Fewer peers than this have no mean to be compared with."""
    worth: bool = True
    """Whether an amount counts only if it can matter (:mod:`~iqcar.causes.stragglers.relevance`);
    the paper has a floor for times only."""
    shared: bool = True
    """Whether what the tasks of a host or executor share is compared with tasks elsewhere only,
    and not with the stage's quantile: where half of a stage ran on it, the quantile hides what its
    tasks have in common (garbage collection, say)."""
    slow_hosts: bool = True
    """Whether a straggler that nothing explains is put down to its host where the stage's other
    tasks there were slow too."""
    evidence: CauseEvidence = CauseEvidence.AUTO
    """What decides whether a resource delayed a straggler."""

    BOUNDS: ClassVar[Mapping[str, tuple[float, float]]] = {
        "straggler": (1, 1e6), "quantile": (0, 1), "ratio": (1, 1e6), "edge": (0, 1e6),
        "edge_ms": (1, 1e9), "floor": (0, 1), "explains": (0, 1), "least_tasks": (2, 1e9),
        "least_peers": (1, 1e9),
    }  # fmt: skip

    @classmethod
    def of_the_paper(cls) -> StragglerSettings:
        """Return the method as printed: no minimum of tasks or worth, no measured waits."""
        return cls(
            least_tasks=2, least_peers=1, worth=False, shared=False, slow_hosts=False,
            evidence=CauseEvidence.PAPER,
        )  # fmt: skip

    @classmethod
    def presets(cls) -> Mapping[str, StragglerSettings]:
        """Return the paper's settings under the word ``paper``."""
        return {PAPER: cls.of_the_paper()}
