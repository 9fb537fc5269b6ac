"""Measures what became of a rule's victims since it acts, from queries that ended in windows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from iqcar.comparison.rule_verdict import RuleVerdict, judge_effect
from iqcar.model.demand.outside_load import outside_load
from iqcar.rules.rule import SLOWER_SHARE, Rule
from iqcar.rules.rule_need import victims_of
from iqcar.tables import Tables, texts

KEPT_MS = 3_600_000.0
"""Runs that ended longer ago say nothing of the cluster as it is."""

LEAST_RUNS = 3
"""Runs of victims before and since, each, below which nothing is measured: one run is chance."""


@dataclass(frozen=True)
class MeasuredEffect:
    """What became of a rule's victims, in percent of their duration; ``runs`` before and since."""

    verdict: str
    sentence: str
    change_percent: float
    controls_percent: float | None
    runs: tuple[int, int]

    @property
    def harmed(self) -> bool:
        """Whether they got slower by more than two runs of one query usually differ."""
        slower = self.change_percent >= 100 * SLOWER_SHARE
        return slower and self.verdict == RuleVerdict.SLOWER.value

    def to_dict(self) -> dict[str, Any]:
        """Return it as it stands in the journal."""
        return asdict(self)


@dataclass(frozen=True)
class _Run:
    fingerprint: str
    start_ms: float
    end_ms: float


class EndedRuns:
    """Queries that ended in the last hour, and outside load of the windows; times by the log."""

    def __init__(self) -> None:
        self._runs: dict[str, _Run] = {}
        self._outside: dict[float, float] = {}

    def add(self, tables: Tables, end_ms: float) -> None:
        """Take in the queries that ended by the end of a window; known ones count once."""
        queries = tables.queries
        start, end = (queries[f"{side}_ms"].to_numpy(np.float64) for side in ("start", "end"))
        ended = queries["ended"].to_numpy(bool) & np.isfinite(start + end) & (end <= end_ms)
        ids, fingerprints = texts(queries, "query_id"), texts(queries, "fingerprint")
        for row in np.flatnonzero(ended).tolist():
            self._runs[ids[row]] = _Run(fingerprints[row], float(start[row]), float(end[row]))
        if (share := outside_load(tables).share) is not None:
            self._outside[end_ms] = share
        oldest = end_ms - KEPT_MS
        self._runs = {name: run for name, run in self._runs.items() if run.end_ms >= oldest}
        self._outside = {at: share for at, share in self._outside.items() if at >= oldest}

    def measure(
        self, rule: Rule, others: Iterable[Rule], from_ms: float, since_ms: float
    ) -> MeasuredEffect | None:
        """Compare the runs that ended from some time on until a rule acted with those since.

        Parameters
        ----------
        others : other rules that act: their queries and victims are no controls.
        from_ms, since_ms : when the contention began, and when the rule was written.

        Returns None with fewer than :data:`LEAST_RUNS` of its victims before or since.
        """
        victims = victims_of(rule)
        touched = {rule.fingerprint, *victims}
        for other in others:
            touched |= {other.fingerprint, *victims_of(other)}

        def is_victim(fingerprint: str) -> bool:
            return fingerprint in victims if victims else fingerprint != rule.fingerprint

        def is_control(fingerprint: str) -> bool:
            return bool(victims) and fingerprint not in touched

        change, before, after = self._change(is_victim, from_ms, since_ms)
        if change is None or min(before, after) < LEAST_RUNS:
            return None
        controls, *runs = self._change(is_control, from_ms, since_ms)
        if min(runs) < LEAST_RUNS:
            controls = None
        judged = judge_effect(change, controls, self._loads(from_ms, since_ms))
        return MeasuredEffect(
            judged.verdict.value,
            f"its victims {judged.sentence}",
            change,
            controls,
            (before, after),
        )

    def _change(
        self, counts: Callable[[str], bool], from_ms: float, since_ms: float
    ) -> tuple[float | None, int, int]:
        """Change in percent of queries that ran before and since, each as often as before."""
        before: dict[str, list[float]] = {}
        after: dict[str, list[float]] = {}
        for run in self._runs.values():
            if run.fingerprint and counts(run.fingerprint):
                if from_ms <= run.end_ms <= since_ms:
                    before.setdefault(run.fingerprint, []).append(run.end_ms - run.start_ms)
                elif run.start_ms >= since_ms:
                    after.setdefault(run.fingerprint, []).append(run.end_ms - run.start_ms)
        both = sorted(before.keys() & after.keys())
        was = sum(sum(before[one]) for one in both)
        now = sum(np.mean(after[one]) * len(before[one]) for one in both)
        counted = [sum(len(side[one]) for one in both) for side in (before, after)]
        return (100 * float(now / was - 1) if was > 0 else None), counted[0], counted[1]

    def _loads(self, from_ms: float, since_ms: float) -> tuple[float | None, float | None]:
        sides = [
            [share for at, share in self._outside.items() if from_ms <= at <= since_ms],
            [share for at, share in self._outside.items() if at > since_ms],
        ]
        before, after = (float(np.mean(side)) if side else None for side in sides)
        return before, after
