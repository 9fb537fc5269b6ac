"""The part of a diagnosis that verdicts and pictures read, as a type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from iqcar.causes.blame.attribute import Blame
    from iqcar.causes.graph import IQCGraph
    from iqcar.causes.stragglers import Stragglers, TaskFeatures
    from iqcar.causes.topics import Topics
    from iqcar.causes.wasted import WastedWork
    from iqcar.replay import Expected
    from iqcar.rules import RejectedRule, Rule
    from iqcar.tables import Tables


class Diagnosed(Protocol):
    """What :class:`iqcar.diagnosis.Diagnosis` offers to verdicts and pictures."""

    @property
    def tables(self) -> Tables:
        """What was read."""

    @property
    def waits(self) -> pd.DataFrame:
        """Waits of every task."""

    @property
    def query_waits(self) -> pd.DataFrame:
        """Waits of every query by resource."""

    @property
    def blame(self) -> Blame:
        """Demands, their sources, and what each stage lost."""

    @property
    def graph(self) -> IQCGraph:
        """iQC-Graph over all queries."""

    @property
    def wasted(self) -> WastedWork:
        """Work whose result was not used."""

    @property
    def targets(self) -> tuple[int, ...]:
        """Rows of the queries under analysis."""

    @property
    def stragglers(self) -> Stragglers:
        """Tasks that were slower than their stage."""

    @property
    def features(self) -> TaskFeatures:
        """Features of the tasks of stages that have stragglers."""

    @property
    def topics(self) -> Topics | None:
        """Causes of stragglers that recur."""

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Proposed scheduler rules and advice."""

    @property
    def rules_together(self) -> Expected | None:
        """Expected effect of all rules together."""

    @property
    def rejected_rules(self) -> tuple[RejectedRule, ...]:
        """Scheduler rules that are predicted to harm."""

    @property
    def doubts(self) -> tuple[str, ...]:
        """What is doubtful, in sentences."""

    def lost_ms(self) -> NDArray[np.float64]:
        """Elapsed time in ms that each query lost."""

    def lost_to_others_ms(self) -> NDArray[np.float64]:
        """Elapsed time in ms that each query lost to other queries."""

    def find_query(self, wanted: str) -> tuple[int, ...]:
        """Rows of the queries that a user means."""
