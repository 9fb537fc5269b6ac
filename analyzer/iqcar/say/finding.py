"""Holds what one finding says, and makes it of what each run of a query would save."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from iqcar.base.units import duration, percent, printable
from iqcar.causes.executors_used import ExecutorUse, executor_use
from iqcar.diagnosis import Diagnosis, WhatIfs, find_query
from iqcar.enums import FindingKind, Kind
from iqcar.errors import IqcarError, UsageError
from iqcar.replay.whatif.model import Model
from iqcar.replay.whatif.question import Question
from iqcar.replay.whatif.what_if import answer
from iqcar.rules.actions import Remedy, Site
from iqcar.say.blamed import QueryNames, RecurringNames
from iqcar.say.sentences import OthersLosses
from iqcar.tables import recurring_queries, texts
from iqcar.tables.arrays import Floats, Ints

SEVERE_SHARE = 0.5
"""Half of a query's run lost to others: it would have ended in half the time or less."""
MARKED_SHARE = 0.2
"""A fifth is what people notice without measuring."""
SLIGHT_SHARE = 0.05
"""Below a twentieth two runs of one query differ as much by chance (as for replayed rules)."""
LEAST_LOST_MS = 500.0
"""Below half a second nobody waited for anything, whatever share of a short query that is."""


class Severity(Kind):
    """How badly a query was hit."""

    SEVERE = "severe", "It lost half of its run or more to other queries."
    MARKED = "marked", "It lost a fifth of its run or more to other queries."
    SLIGHT = "slight", "It lost a twentieth of its run or more to other queries."
    OWN = "own", "It lost a fifth of its run or more, but not to other queries."
    QUIET = "quiet", "It lost little."

    @property
    def words(self) -> str:
        """The severity as a reader sees it."""
        return "within itself" if self is Severity.OWN else str(self)


HELD_UP = (Severity.SEVERE, Severity.MARKED, Severity.SLIGHT)
"""A query of these was held up by others."""


def severity_of(ran_ms: float, lost_ms: float, to_others_ms: float) -> Severity:
    """Say how badly a query was hit.

    ran_ms, lost_ms, to_others_ms: its duration, what of it was lost, and what of that to other
    queries.
    """
    if not ran_ms > 0:
        return Severity.QUIET
    if to_others_ms >= LEAST_LOST_MS:
        share = to_others_ms / ran_ms
        for least, word in (
            (SEVERE_SHARE, Severity.SEVERE),
            (MARKED_SHARE, Severity.MARKED),
            (SLIGHT_SHARE, Severity.SLIGHT),
        ):
            if share >= least:
                return word
    others_not = lost_ms - to_others_ms
    if others_not >= LEAST_LOST_MS and others_not / ran_ms >= MARKED_SHARE:
        return Severity.OWN
    return Severity.QUIET


MOST_TASKS = 100_000
"""Tasks replayed for all findings together: some 0.8 s at 8 µs each."""
WIDER = 1.4
"""Factor of the upper end of what removing a query saves: capacities are fitted to a run in which
devices were shared, and come out somewhat low. Without a replay, the lower end is divided by it."""
_GRAPHX = re.compile(r"at (Graph|Pregel|Vertex|Edge|PageRank|ShippableVertex)\w{0,40}\.scala")
_OF_SQL = re.compile(r"Scan |Exchange|Aggregate|Project|Filter|Join|Execute ")
ESTIMATED, REPLAYED = "estimated", "replayed"
MOST_FITTED = 5_000
"""Tasks up to which a model is fitted for it: half a second."""


@dataclass(frozen=True)
class Finding:
    """What would save time, and how; every text is printable.

    queries: rows of the queries that it is about, the one that saves most first.
    subject: the recurring query, or the host.
    saves_ms, low_ms, high_ms: elapsed time that the action alone saves, at most what the runs took;
    and its range.
    share: ``saves_ms`` as a share of the runs' duration.
    evidence: ``replayed`` where a replay of the run says what is saved, else ``estimated``.
    where: stage, host or resource; empty if everywhere.
    sentence: what was found.
    action: what to do.
    settings: name and value of settings, and why.
    section: key of the section that shows the numbers.
    frees: for idle executors, the share of their time that the action frees; else 0.
    question: what a replay is asked to tell how much it saves.
    """

    kind: FindingKind
    queries: tuple[int, ...]
    subject: str
    saves_ms: float
    low_ms: float
    high_ms: float
    share: float
    evidence: str
    where: str
    sentence: str
    action: str
    settings: tuple[tuple[str, str, str], ...]
    section: str
    frees: float = 0.0
    question: Question | None = field(default=None, repr=False, compare=False)

    @property
    def saving(self) -> str:
        """The saving in words: ``saves about 154 s (77 s … 154 s), 36 % of its run``."""
        low, high = duration(self.low_ms), duration(self.high_ms)
        if self.kind is FindingKind.IDLE:
            return f"frees up to {percent(self.frees)} of the executors' time"
        if self.kind is FindingKind.FAILED and not self.saves_ms > 0:
            return ""
        if self.kind is FindingKind.UNKNOWN:
            return f"may save up to {high}, once it is explained"
        within = f" ({low} … {high})" if low != high else ""
        return f"saves about {duration(self.saves_ms)}{within}, {percent(self.share)} of its run"


class About:
    """What findings are about: queries, summed by recurring query."""

    _replayed_tasks = 0

    def __init__(self, diagnosis: Diagnosis) -> None:
        tables = diagnosis.tables
        self.diagnosis, self.tables = diagnosis, tables
        self.names = QueryNames(tables.queries, tables.applications)
        self.called = RecurringNames(tables).called
        self.recurring: Ints = recurring_queries(tables)
        self.ran: Floats = np.nan_to_num(tables.queries["duration_ms"].to_numpy(np.float64))
        self.others = OthersLosses(diagnosis, diagnosis.lost_ms())
        size = int(self.recurring.max(initial=-1)) + 1
        self.run_of = np.bincount(self.recurring, self.ran, size)
        self._places: dict[int, Site] = {}

    @cached_property
    def use_of(self) -> dict[int, ExecutorUse]:
        """What each application made of its executors."""
        return {one.app: one for one in executor_use(self.tables)}

    def place(self, query: int) -> Site:
        """Where a query ran."""
        app = int(self.tables.queries["app"].iloc[query])
        if app not in self._places:
            self._places[app] = Site(self.tables, app)
        return self._places[app]

    def api_of(self, query: int, stage: int) -> str:
        """What a stage of a query was written with: sql, streaming, graphx or rdd."""
        told = self.tables.stages.iloc[stage]
        if told["operators"] or _OF_SQL.search(told["label"]):
            name = str(self.tables.queries["name"].iloc[query])
            return "streaming" if "streaming" in name else "sql"
        mine = (self.tables.stages["query"] == query).to_numpy(bool)
        names = " ".join(texts(self.tables.stages[mine], "name"))
        return "graphx" if _GRAPHX.search(names) else "rdd"

    @cached_property
    def rows_of(self) -> dict[int, list[int]]:
        """Rows of the runs of each recurring query."""
        found: dict[int, list[int]] = {}
        for row, one in enumerate(self.recurring.tolist()):
            found.setdefault(one, []).append(row)
        return found

    def finding(
        self,
        kind: FindingKind,
        rows: Mapping[int, float],
        *,
        sentence: str,
        action: Remedy,
        ranged: tuple[float, float] = (0.5, 1.0),
        saves: float | None = None,
        where: str = "",
        section: str = "",
        question: Question | None = None,
    ) -> Finding:
        """Make a finding on one recurring query of what each of its runs would save.

        ``ranged``: the range, in parts of that. ``saves``: the saving; the middle by default.
        """
        order = sorted(rows, key=lambda row: -rows[row])
        ran = float(self.run_of[self.recurring[order[0]]])
        most = min(sum(rows.values()), ran)
        low, high = ranged[0] * most, min(ranged[1] * most, ran)
        saves = (low + high) / 2.0 if saves is None else min(saves, most)
        return Finding(
            kind=kind,
            queries=tuple(order),
            subject=self.called(order[0]),
            saves_ms=saves,
            low_ms=low,
            high_ms=high,
            share=saves / ran if ran > 0 else 0.0,
            evidence=ESTIMATED,
            where=printable(where),
            sentence=printable(sentence),
            action=printable(action.do),
            settings=action.settings,
            section=section,
            question=question,
        )

    def saving(self, finding: Finding, ms: float) -> Finding:
        """Set how much a finding saves."""
        run = float(self.run_of[self.recurring[finding.queries[0]]])
        return replace(finding, saves_ms=ms, share=ms / run if run > 0 else 0.0)

    def replayed(self, finding: Finding) -> Finding:
        """Say of a finding what a replay says, where the run is small enough and is reproduced."""
        question = finding.question
        model = None if question is None else self._model
        if question is None or model is None:
            return finding
        self._replayed_tasks += len(self.tables.tasks) * (len(model.members) + 2)
        if self._replayed_tasks > MOST_TASKS:
            return finding
        try:
            said = answer(model, question, self._rows).queries
        except UsageError:
            return finding
        mine = said.reindex(list(finding.queries))
        recorded, predicted, low, high = (
            float(mine[name].sum(skipna=False))
            for name in ("recorded_ms", "predicted_ms", "low_ms", "high_ms")
        )
        if not np.isfinite(predicted + low + high):
            return finding
        saves = min(max(recorded - predicted, 0.0), recorded)
        wider = WIDER if finding.kind is FindingKind.CONTENTION else 1.0
        most = min(wider * (recorded - low), recorded)
        low_ms = max(recorded - high, 0.0)
        finding = replace(finding, low_ms=low_ms, high_ms=most, evidence=REPLAYED)
        return self.saving(finding, saves)

    def _rows(self, name: str, option: str) -> tuple[int, ...]:
        return find_query(self.tables.queries, name, option)

    @cached_property
    def _model(self) -> Model | None:
        found = self.diagnosis
        if found.fitted is None and len(self.tables.tasks) > MOST_FITTED:
            return None
        try:
            return WhatIfs(found).model
        except IqcarError:
            return None

    def of_run(self, ms: float, query: int) -> str:
        """``12.3 s of its 40.0 s``."""
        return f"{duration(ms)} of its {duration(float(self.run_of[self.recurring[query]]))}"

    def grouped(self, queries: Sequence[int], ms: Floats) -> Iterator[dict[int, float]]:
        """Sum by run, and collect the runs of each recurring query."""
        groups: dict[int, dict[int, float]] = {}
        for query, amount in zip(queries, ms.tolist(), strict=True):
            runs = groups.setdefault(int(self.recurring[query]), {})
            runs[query] = runs.get(query, 0.0) + amount
        yield from groups.values()
