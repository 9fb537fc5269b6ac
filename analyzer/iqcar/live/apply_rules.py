"""Applies rules to a running application: writes them, judges their effect, takes them back.

The journal has one JSON object per line, with ``time`` (ISO 8601, UTC), ``event`` and ``reason``.
Lines of a decision also have ``window`` (``start_ms``, ``end_ms`` by the log's clock), ``rule``,
``expected_gain_ms``, and ``measured``, the effect so far; None until it is known.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from typing import Any

import numpy as np

from iqcar.base.files.derived import open_to_append
from iqcar.base.files.json_text import json_bytes
from iqcar.causes.graph.iqc_graph import IQCGraph
from iqcar.comparison.rule_verdict import RuleVerdict, judge_effect
from iqcar.errors import IqcarError, UsageError
from iqcar.live.rule_loop import (
    NEW_SHARE,
    Action,
    Change,
    EditedElsewhereError,
    Limits,
    LoopState,
    Proposal,
    RuleWriter,
    WindowEvidence,
    step,
)
from iqcar.model.demand.host_samples import outside_load
from iqcar.replay.rule_effect.effect import predict
from iqcar.rules.propose_rules import MIN_LOST_MS, needs_of, victims_of
from iqcar.rules.recorded_setup import recorded_scheduler
from iqcar.rules.rule import SLOWER_SHARE, Key, Outlook, Rule, key_of, scheduler_rules
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

        others: other rules that act: their queries and victims are no controls.
        from_ms, since_ms: when the contention began, and when the rule was written.

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


WINS = (Outlook.HELPS.value, Outlook.UNSURE.value)
"""Outlooks of a rule that won in a window. One within the replay's own error counts, too: only a
gain that comes again in several windows is acted on."""


@dataclass(frozen=True)
class Applied:
    """What the loop did with one window.

    changes: decisions.
    rules: rules of the loop that act now.
    lines: lines of the journal.
    stopped: why the loop no longer acts; empty while it does.
    """

    changes: tuple[Change, ...] = ()
    rules: tuple[Rule, ...] = ()
    lines: tuple[dict[str, Any], ...] = ()
    stopped: str = ""


@dataclass
class RuleApplier:
    """The closed loop of one rules file.

    writer: the file.
    limits: bounds of the loop.
    journal: file that gets a line for each decision; empty: none.
    dry_run: whether everything is decided and nothing written.
    take_over: whether a file that somebody else edits is added to, instead of being left alone.
    restore: whether the rules of before are restored at the end.
    stopped: why the loop no longer acts; empty while it does.
    """

    writer: RuleWriter
    limits: Limits = field(default_factory=Limits)
    journal: str = ""
    dry_run: bool = False
    take_over: bool = False
    restore: bool = True
    stopped: str = ""
    state: LoopState = field(default_factory=LoopState)
    _runs: EndedRuns = field(default_factory=EndedRuns)
    _since: dict[Key, tuple[float, float]] = field(default_factory=dict)
    """When the contention of each rule began and when the rule was written, by the log's clock."""
    _counted_ms: float = float("-inf")
    _began: dict[Key, float] = field(default_factory=dict)
    """Start of the first window that each rule won in."""

    def start(self, now_ms: float) -> list[dict[str, Any]]:
        """Begin; raises UsageError while the kill switch is on."""
        if self.writer.stop_file.exists():
            raise UsageError(
                "is there: the loop does not act", str(self.writer.stop_file), "remove it first"
            )
        self.state = replace(self.state, fixed=tuple(scheduler_rules(self.writer.fixed)))
        said = "; ".join(["the loop starts", *self.writer.said])
        return [self._note(event_line(now_ms, "start", said))]

    def is_due(self, now_ms: float, window_ms: float) -> bool:
        """Tell whether enough time has passed since the last window that counted."""
        return not self.stopped and now_ms - self._counted_ms >= NEW_SHARE * window_ms

    def look(self, now_ms: float) -> Applied:
        """Obey the kill switch between windows."""
        if not self.stopped and self.writer.stop_file.exists():
            return self.end(now_ms, f"{self.writer.stop_file} is there")
        return Applied(rules=self.state.rules(), stopped=self.stopped)

    def acting(self) -> tuple[Rule, ...]:
        """Return the rules that act now: those of the file before, and the loop's."""
        return (*self.state.fixed, *self.state.rules())

    def window(
        self, tables: Tables, rules: Iterable[Rule], start_ms: float, end_ms: float, now_ms: float
    ) -> Applied:
        """Take in one window: decide, write, and note why.

        tables: what is known at the window's end of one application, times not cut at its start.
        rules: proposed from it, with their expected effect.
        start_ms, end_ms: by the log's clock.
        now_ms: by this machine's clock, ms since the epoch.
        """
        looked = self.look(now_ms)
        if looked.stopped:
            return looked
        try:
            lines = self._look_for_edits(now_ms)
            self._runs.add(tables, end_ms)
            evidence, measured = self._evidence(tables, rules, start_ms, end_ms)
            before = self.state
            self.state, changes = step(self.state, evidence, now_ms, self.limits)
            if self.state.end_ms > before.end_ms:
                self._counted_ms = now_ms
            if self.state.rules() != before.rules():
                self._write(tables, changes)
        except IqcarError as error:
            self.stopped = str(error)
            line = self._note(event_line(now_ms, "stop", self.stopped))
            return Applied((), (), (line,), self.stopped)
        self._keep_times()
        lines += [
            self._note(decision_line(now_ms, evidence, change, measured.get(key_of(change.rule))))
            for change in changes
        ]
        return Applied(changes, self.state.rules(), tuple(lines))

    def end(self, now_ms: float, why: str) -> Applied:
        """Stop acting: restore the rules of before or leave those that act, and say which."""
        if self.stopped:
            return Applied(stopped=self.stopped)
        lines = [
            self._note(effect_line(now_ms, self.state.in_force[key].rule, effect))
            for key, effect in self.measured().items()
        ]
        what = "nothing was written" if self.dry_run else self.writer.stop(restore=self.restore)
        self.stopped = f"{why}: {what}"
        if self.restore:
            self.state = replace(self.state, in_force={})
        lines.append(self._note(event_line(now_ms, "stop", self.stopped)))
        return Applied((), self.state.rules(), tuple(lines), self.stopped)

    def measured(self) -> dict[Key, MeasuredEffect]:
        """Return the measured effect of each rule that acts, where enough queries ended."""
        acting, found = self.acting(), {}
        for rule in self.state.rules():
            key = key_of(rule)
            others = [one for one in acting if key_of(one) != key]
            effect = self._runs.measure(rule, others, *self._since[key])
            if effect is not None:
                found[key] = effect
        return found

    def _evidence(
        self, tables: Tables, rules: Iterable[Rule], start_ms: float, end_ms: float
    ) -> tuple[WindowEvidence, dict[Key, MeasuredEffect]]:
        measured = self.measured()
        acting = self.state.rules()
        keys = [key_of(rule) for rule in acting]
        needs = {
            key: replace(need, harmed=key in measured and measured[key].harmed)
            for key, need in zip(keys, needs_of(acting, tables, start_ms, end_ms), strict=True)
        }
        won = won_in(rules)
        for proposal in won:
            self._began.setdefault(key_of(proposal.rule), start_ms)
        return WindowEvidence(start_ms, end_ms, won, needs), measured

    def _write(self, tables: Tables, changes: Iterable[Change]) -> None:
        if self.dry_run:
            return
        written = [change.rule for change in changes if change.action is Action.WRITE]
        recorded = recorded_scheduler(tables, written) if written else None
        self.writer.write(self.state.rules(), recorded)

    def _keep_times(self) -> None:
        """Forget the contention of rules that neither act nor won lately."""
        for key, acting in self.state.in_force.items():
            self._since.setdefault(key, (self._began.get(key, acting.log_ms), acting.log_ms))
        self._since = {k: since for k, since in self._since.items() if k in self.state.in_force}
        known = {*self.state.in_force, *self.state.gains}
        self._began = {key: began for key, began in self._began.items() if key in known}

    def _look_for_edits(self, now_ms: float) -> list[dict[str, Any]]:
        if self.dry_run:
            return []
        try:
            self.writer.check()
        except EditedElsewhereError as error:
            if not self.take_over:
                raise
            self.writer.take_over()
            self.state = replace(
                LoopState(fixed=tuple(scheduler_rules(self.writer.fixed))),
                changes_ms=self.state.changes_ms,
                taken_back=self.state.taken_back,
            )
            why = f"{error.where} was edited by somebody else: its rules are kept from now on"
            return [self._note(event_line(now_ms, "take-over", why))]
        return []

    def _note(self, line: dict[str, Any]) -> dict[str, Any]:
        if self.journal and not self.dry_run:
            append_line(self.journal, line)
        return line


def won_in(rules: Iterable[Rule]) -> tuple[Proposal, ...]:
    """Return the rules of a window that its replay lets win, with what their victims gain."""
    found = []
    for rule in scheduler_rules(rules):
        expected = rule.expected
        if not rule.helps_pools or expected is None or expected.get("outlook") not in WINS:
            continue
        gain = float(expected["victims_before_ms"]) - float(expected["victims_after_ms"])
        if gain >= MIN_LOST_MS:
            found.append(Proposal(rule, gain))
    return tuple(found)


_OF_RULE = ("rule-type", "query-type", "rule-value", "fingerprint", "query_name", "resource")


def decision_line(
    now_ms: float, evidence: WindowEvidence, change: Change, measured: MeasuredEffect | None
) -> dict[str, Any]:
    """Return the line of one decision."""
    return {
        **event_line(now_ms, change.action.value, change.reason),
        "window": {"start_ms": evidence.start_ms, "end_ms": evidence.end_ms},
        "rule": _rule(change.rule),
        "expected_gain_ms": change.gain_ms,
        "measured": None if measured is None else measured.to_dict(),
    }


def effect_line(now_ms: float, rule: Rule, measured: MeasuredEffect) -> dict[str, Any]:
    """Return the line that says at the end what became of a rule's victims."""
    line = event_line(now_ms, "effect", measured.sentence)
    return {**line, "rule": _rule(rule), "measured": measured.to_dict()}


def event_line(now_ms: float, event: str, reason: str) -> dict[str, Any]:
    """Return the line of what is no decision: the loop starts, stops, or is refused."""
    time = datetime.fromtimestamp(now_ms / 1000, timezone.utc).isoformat(timespec="milliseconds")
    return {"time": time, "event": event, "reason": reason}


def _rule(rule: Rule) -> dict[str, Any]:
    fields = rule.to_dict()
    return {name: fields[name] for name in _OF_RULE}


def append_line(path: str, line: dict[str, Any]) -> None:
    """Append one line to a journal, made if missing; raises IqcarError, also for a link."""
    try:
        descriptor = open_to_append(path)
        try:
            os.write(descriptor, json_bytes(line) + b"\n")
        finally:
            os.close(descriptor)
    except OSError as error:
        raise IqcarError(f"cannot be written: {error.strerror}", path) from error


def predicted_rules(
    tables: Tables, graph: IQCGraph, rules: Iterable[Rule], acting: Sequence[Rule] = ()
) -> tuple[Rule, ...]:
    """Return the rules of a window with their expected effect, also on queries that still run.

    Behind a hog, victims do not end: a prediction for those that did would come when all is over.
    So a query that runs counts to the window's end, and a task that waits takes no time once it is
    launched: what a rule gains is how much earlier those tasks would have got a slot.

    tables: the window's, cut at its start; queries and stages that have not ended end with it.
    graph: of the window.
    rules: proposed from it.
    acting: rules that act beside them.

    The result is without those that are predicted to harm.
    """
    proposed = scheduler_rules(rules)
    if not proposed:
        return ()
    known = np.isfinite(tables.queries["end_ms"].to_numpy(np.float64))
    queries = tables.queries.assign(ended=tables.queries["ended"].to_numpy(bool) | known)
    return predict(tables.with_(queries=queries), graph, proposed, beside=acting).rules
