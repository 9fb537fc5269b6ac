"""Closes the loop: decides on rules for each window, writes the file that Spark watches.

The journal has one JSON object per line, with ``time`` (ISO 8601, UTC), ``event`` and ``reason``.
Lines of a decision also have ``window`` (``start_ms``, ``end_ms`` by the log's clock), ``rule``,
``expected_gain_ms``, and ``measured``, the effect so far; None until it is known.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any

import numpy as np

from iqcar.base.files.derived import open_to_append
from iqcar.base.files.json_text import json_bytes
from iqcar.causes.graph.iqc_graph import IQCGraph
from iqcar.errors import IqcarError, UsageError
from iqcar.live.rule_effect import EndedRuns, MeasuredEffect
from iqcar.live.rule_loop import (
    NEW_SHARE,
    Action,
    Change,
    Limits,
    LoopState,
    Proposal,
    WindowEvidence,
    step,
)
from iqcar.live.rule_writer import EditedElsewhereError, RuleWriter
from iqcar.replay.rule_effect.effect import predict
from iqcar.rules.pool_plan import Key, key_of
from iqcar.rules.propose_rules import MIN_LOST_MS
from iqcar.rules.recorded_setup import recorded_scheduler
from iqcar.rules.rule import Outlook, Rule, scheduler_rules
from iqcar.rules.rule_need import needs_of
from iqcar.tables import Tables

WINS = (Outlook.HELPS.value, Outlook.UNSURE.value)
"""Outlooks of a rule that won in a window. One within the replay's own error counts, too: only a
gain that comes again in several windows is acted on."""


@dataclass(frozen=True)
class Applied:
    """What the loop did with one window.

    Attributes
    ----------
    changes : decisions.
    rules : rules of the loop that act now.
    lines : lines of the journal.
    stopped : why the loop no longer acts; empty while it does.
    """

    changes: tuple[Change, ...] = ()
    rules: tuple[Rule, ...] = ()
    lines: tuple[dict[str, Any], ...] = ()
    stopped: str = ""


@dataclass
class RuleApplier:
    """The closed loop of one rules file.

    Attributes
    ----------
    writer : the file.
    limits : bounds of the loop.
    journal : file that gets a line for each decision; empty: none.
    dry_run : whether everything is decided and nothing written.
    take_over : whether a file that somebody else edits is added to, instead of being left alone.
    restore : whether the rules of before are restored at the end.
    stopped : why the loop no longer acts; empty while it does.
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

        Parameters
        ----------
        tables : what is known at the window's end of one application, times not cut at its start.
        rules : proposed from it, with their expected effect.
        start_ms, end_ms : by the log's clock.
        now_ms : by this machine's clock, ms since the epoch.
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

    Parameters
    ----------
    tables : the window's, cut at its start; queries and stages that have not ended end with it.
    graph : of the window.
    rules : proposed from it.
    acting : rules that act beside them.

    The result is without those that are predicted to harm.
    """
    proposed = scheduler_rules(rules)
    if not proposed:
        return ()
    known = np.isfinite(tables.queries["end_ms"].to_numpy(np.float64))
    queries = tables.queries.assign(ended=tables.queries["ended"].to_numpy(bool) | known)
    return predict(tables.with_(queries=queries), graph, proposed, beside=acting).rules
