"""Decides which rules act on a running application, and writes them for the plugin.

The decision is a pure function of state, evidence and time: it reads no file and no clock. It is
damped in five ways:

* A rule is written when it won in several of the last windows, and taken back when nothing has
  needed it for several windows in a row. A rule that works removes its own evidence, the blame, so
  a rule in force is never judged by blame: it is needed while what it holds back and those it helps
  still want slots at the same time (:mod:`iqcar.rules.propose_rules`).
* Each change voids the evidence that was gathered before it: that was another cluster.
* Every rule in force keeps one of the hour's changes in reserve, so that it can always be taken
  back.
* A rule that was taken back and comes again waits longer each time before it is written, and is
  kept longer.
* No rule is written that is opposite to one in force: a query whose pool is held back waits, which
  looks like a reason to raise it.

The file is replaced as a whole, never written into, and its new content has passed the reader of
rules files first. Rules that were in the file before stay in it beside those of the loop, and their
bytes are kept in a file beside it (``RULES.before``), so that even a loop that was killed leaves
what its successor restores.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from iqcar.base.files.derived import write_derived
from iqcar.enums import Kind
from iqcar.errors import IqcarError
from iqcar.rules.compile_pools import (
    MAX_FILE_BYTES,
    RulesFile,
    compile_rules,
    dump_rules,
    parse_rules_file,
)
from iqcar.rules.propose_rules import Need
from iqcar.rules.recorded_setup import Recorded
from iqcar.rules.rule import (
    PREFIX,
    Key,
    Pool,
    PoolPlan,
    QueryType,
    Rule,
    RuleType,
    key_of,
    opposite,
    stands_for,
)

HOUR_MS = 3_600_000.0

MAX_PATIENCE = 8
"""A rule that was taken back often is kept at most so many times as long without need. It costs
nothing while nothing needs it; keeping it for ever would fill the places of others."""

FORGOTTEN_MS = 24 * HOUR_MS
"""A rule that was taken back so long ago comes again as if for the first time."""

_TYPES = tuple(RuleType)

NEW_SHARE = 0.5
"""A window counts if at least this share of it lies after the last one that counted, and after the
last change: otherwise one slow moment would win in several windows that overlap."""


class Action(Kind):
    """What the loop decided about a rule."""

    WRITE = "write", "The rule acts from now on."
    TAKE_BACK = "take-back", "The rule no longer acts."
    REFUSE = "refuse", "The rule won, but may not be written now."


@dataclass(frozen=True)
class Limits:
    """Bounds of the loop.

    max_rules: rules of the loop in force at once.
    max_changes_per_hour: rules written and taken back in any 60 minutes, together.
    wins, of_windows: a rule is written when it won in ``wins`` of the last ``of_windows`` windows.
    missed_windows: a rule is taken back after so many windows in a row without need, or in which
        its victims were measured to be slower.
    hold_off_ms: how long a rule that was taken back once is not written again; twice as long after
        each further time.
    longest_hold_off_ms: never longer than this.
    """

    max_rules: int = 3
    max_changes_per_hour: int = 12
    wins: int = 3
    of_windows: int = 5
    missed_windows: int = 6
    hold_off_ms: float = 60_000.0
    longest_hold_off_ms: float = HOUR_MS

    def __post_init__(self) -> None:
        if not (0 < self.wins <= self.of_windows and self.missed_windows > 0):
            raise ValueError("wins must be within 1 and of_windows, missed_windows above 0")


@dataclass(frozen=True)
class Proposal:
    """A rule proposed from one window, and what its victims would gain there, in ms above 0."""

    rule: Rule
    gain_ms: float


@dataclass(frozen=True)
class WindowEvidence:
    """What one window says: proposals that won there, in any order, and needs of rules in force."""

    start_ms: float
    end_ms: float
    proposals: tuple[Proposal, ...] = ()
    needs: Mapping[Key, Need] = field(default_factory=dict)


@dataclass(frozen=True)
class Change:
    """One decision with its reason, a sentence without a full stop."""

    action: Action
    rule: Rule
    reason: str
    gain_ms: float = 0.0


@dataclass(frozen=True)
class InForce:
    """A rule of the loop that acts: since when, for what gain, and what windows said of it since.

    ``since_ms`` is by the caller's clock and ``log_ms`` by the log's; ``unneeded`` and ``harmed``
    count windows in a row.
    """

    rule: Rule
    since_ms: float
    log_ms: float
    gain_ms: float
    unneeded: int = 0
    harmed: int = 0


@dataclass(frozen=True)
class TakenBack:
    """How often a rule was taken back, and when last."""

    times: int
    at_ms: float


@dataclass(frozen=True)
class LoopState:
    """What the loop knows between windows.

    fixed: rules of others that act beside the loop's: never taken back, never contradicted.
    in_force: rules of the loop that act.
    gains: per rule that won, its gain in the last windows, the latest last; 0 where it did not.
    taken_back: rules that were taken back.
    changes_ms: times of the changes of the last hour.
    refused: why each rule that won was not written, so that this is said once.
    now_ms, end_ms, changed_ms: time of the last step; end of the last window that counted, and of
        that in which something changed, by the log's clock.
    """

    fixed: tuple[Rule, ...] = ()
    in_force: Mapping[Key, InForce] = field(default_factory=dict)
    gains: Mapping[Key, tuple[float, ...]] = field(default_factory=dict)
    taken_back: Mapping[Key, TakenBack] = field(default_factory=dict)
    changes_ms: tuple[float, ...] = ()
    refused: Mapping[Key, str] = field(default_factory=dict)
    now_ms: float = float("-inf")
    end_ms: float = float("-inf")
    changed_ms: float = float("-inf")

    def rules(self) -> tuple[Rule, ...]:
        """Return the loop's rules that act, in the order in which a file lists them."""
        return tuple(self.in_force[key].rule for key in _sorted(self.in_force))


def step(
    state: LoopState, evidence: WindowEvidence, now_ms: float, limits: Limits
) -> tuple[LoopState, tuple[Change, ...]]:
    """Take in one window and decide.

    evidence: a window of which less than :data:`NEW_SHARE` is new is passed over.
    now_ms: time by the caller's clock, ms; if it runs backwards it counts as standing still.

    Returns
    -------
    LoopState
    tuple of Change
        What to do: rules taken back, then refusals, then at most one that is written. The order of
        proposals makes no difference.
    """
    new = NEW_SHARE * (evidence.end_ms - evidence.start_ms)
    if not (evidence.end_ms - state.end_ms >= new and evidence.end_ms > state.end_ms):
        return state, ()
    is_after = evidence.end_ms - state.changed_ms >= new
    now = max(now_ms, state.now_ms)
    state = replace(
        state,
        now_ms=now,
        end_ms=evidence.end_ms,
        changes_ms=tuple(at for at in state.changes_ms if now - at < HOUR_MS),
        taken_back={k: t for k, t in state.taken_back.items() if now - t.at_ms < FORGOTTEN_MS},
        in_force={
            key: _after_window(rule, evidence.needs.get(key))
            for key, rule in state.in_force.items()
        },
    )
    changes = []
    for key in _sorted(state.in_force):
        if reason := _why_take_back(state, key, evidence, limits):
            acting = state.in_force[key]
            state = _without(state, key)
            changes.append(Change(Action.TAKE_BACK, acting.rule, reason, acting.gain_ms))
    if is_after and not changes:
        state = replace(state, gains=_gains(state, evidence, limits))
    proposed = {key_of(one.rule): one.rule for one in evidence.proposals}
    refused = {}
    for key in _winners(state, proposed, limits):
        rule, gain = proposed[key], _mean_gain(state.gains[key])
        if stands_for(rule, _acting(state)) is not None:
            continue
        if why := _why_refuse(state, rule, limits):
            refused[key] = why
            if state.refused.get(key) != why:
                changes.append(Change(Action.REFUSE, rule, why, gain))
            continue
        won = sum(one > 0 for one in state.gains[key])
        reason = f"it won in {won} of the last {len(state.gains[key])} windows"
        changes.append(Change(Action.WRITE, rule, reason, gain))
        state = _changed(state, {**state.in_force, key: InForce(rule, now, evidence.end_ms, gain)})
        break
    return replace(state, refused=refused), tuple(changes)


def most_changes_held(state: LoopState) -> int:
    """Count changes of the last hour and those kept in reserve: never above the hour's limit."""
    return len(state.changes_ms) + len(state.in_force)


def _acting(state: LoopState) -> list[Rule]:
    return [*state.fixed, *(acting.rule for acting in state.in_force.values())]


def _sorted(keys: Iterable[Key]) -> list[Key]:
    return sorted(keys, key=lambda key: (_TYPES.index(key[0]), *key[1:]))


def _after_window(acting: InForce, need: Need | None) -> InForce:
    needed = need is not None and need.needed
    harmed = need is not None and need.harmed
    return replace(
        acting,
        unneeded=0 if needed else acting.unneeded + 1,
        harmed=acting.harmed + 1 if harmed else 0,
    )


def _why_take_back(state: LoopState, key: Key, evidence: WindowEvidence, limits: Limits) -> str:
    """Say why a rule in force is taken back; empty if it stays."""
    acting, times = state.in_force[key], _times(state, key)
    if acting.harmed >= limits.missed_windows:
        return f"its victims are slower with it, in {acting.harmed} windows in a row"
    patience = limits.missed_windows * min(2**times, MAX_PATIENCE)
    if acting.unneeded < patience:
        return ""
    need = evidence.needs.get(key)
    why = f": {need.why}" if need is not None else ""
    return f"nothing needed it in {acting.unneeded} windows in a row{why}"


def _without(state: LoopState, key: Key) -> LoopState:
    back = TakenBack(_times(state, key) + 1, state.now_ms)
    left = {k: acting for k, acting in state.in_force.items() if k != key}
    return replace(_changed(state, left), taken_back={**state.taken_back, key: back})


def _changed(state: LoopState, in_force: Mapping[Key, InForce]) -> LoopState:
    return replace(
        state,
        in_force=in_force,
        changes_ms=(*state.changes_ms, state.now_ms),
        changed_ms=state.end_ms,
        gains={},
    )


def _times(state: LoopState, key: Key) -> int:
    return state.taken_back[key].times if key in state.taken_back else 0


def _gains(
    state: LoopState, evidence: WindowEvidence, limits: Limits
) -> dict[Key, tuple[float, ...]]:
    """Append this window's gains; rules that won in none of the last windows are dropped."""
    won = {key_of(one.rule): one.gain_ms for one in evidence.proposals if one.gain_ms > 0}
    found = {}
    for key in {*state.gains, *won}:
        if key in state.in_force:
            continue
        gains = (*state.gains.get(key, ()), won.get(key, 0.0))[-limits.of_windows :]
        if any(gains):
            found[key] = gains
    return found


def _mean_gain(gains: Sequence[float]) -> float:
    won = [gain for gain in gains if gain > 0]
    return sum(won) / len(won)


def _winners(state: LoopState, proposed: Mapping[Key, Rule], limits: Limits) -> list[Key]:
    """Rules of this window that won often enough, the largest gain first."""
    won = [
        key
        for key, gains in state.gains.items()
        if key in proposed and gains[-1] > 0 and sum(gain > 0 for gain in gains) >= limits.wins
    ]
    ordered = _sorted(won)
    return sorted(ordered, key=lambda key: -_mean_gain(state.gains[key]))


def _why_refuse(state: LoopState, rule: Rule, limits: Limits) -> str:
    """Say why a rule that won is not written; empty if it may be."""
    contradicted = next((one for one in _acting(state) if opposite(one, rule)), None)
    if contradicted is not None:
        raised = rule.query_type is QueryType.TARGET
        how = ("raise", "holds back") if raised else ("hold back", "raises")
        return (
            f"it would {how[0]} a query that an acting rule ({contradicted.rule_type}) {how[1]}: "
            "what it is proposed for is that rule's work"
        )
    back = state.taken_back.get(key_of(rule))
    if back is not None:
        hold_off = min(limits.hold_off_ms * 2 ** (back.times - 1), limits.longest_hold_off_ms)
        if state.now_ms - back.at_ms < hold_off:
            often = "once" if back.times == 1 else f"{back.times} times"
            return (
                f"it was taken back {often}, the next may come {hold_off / 1000:.0f} s after that"
            )
    if len(state.in_force) >= limits.max_rules:
        return f"{limits.max_rules} rules act already, and no more may"
    # The change itself, and one in reserve to take it back.
    if most_changes_held(state) + 2 > limits.max_changes_per_hour:
        return (
            f"there were {len(state.changes_ms)} changes in the last hour, "
            f"{len(state.in_force)} more are kept for rules in force, and "
            f"{limits.max_changes_per_hour} are allowed"
        )
    return ""


STOP, BEFORE = ".stop", ".before"
"""Endings of the files beside the rules file: the kill switch, and the rules of before."""

MARK = "live"
"""Ids of the loop's rules hold it: DYNP-live-1."""


class EditedElsewhereError(IqcarError):
    """Somebody else changed or removed the rules file since it was read or written here."""


@dataclass
class _Original:
    """The rules file as it was before the loop; ``content`` is None where there was none."""

    content: bytes | None
    file: RulesFile


class RuleWriter:
    """The rules file of one live loop.

    Raises IqcarError if the file that is there cannot be read or is no rules file.

    path: a local file; made if it is missing.

    said: what a person should know of how it was found, sentences without a full stop.
    """

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self.said: list[str] = []
        self._before = self.path.with_name(self.path.name + BEFORE)
        self._ids: dict[Key, str] = {}
        self._recorded = Recorded()
        self._known = _content(self.path)
        if self._before.exists():
            self._recover()
        self._original = self._parsed(self._known)

    @property
    def stop_file(self) -> Path:
        """The kill switch: while this file exists, the loop does not act."""
        return self.path.with_name(self.path.name + STOP)

    @property
    def fixed(self) -> tuple[Rule, ...]:
        """Rules that were in the file before, advice included."""
        return self._original.file.rules

    def check(self) -> None:
        """Raise :class:`EditedElsewhereError` if the file is no longer as it was left here."""
        if _content(self.path) != self._known:
            raise EditedElsewhereError(
                "was edited or removed by somebody else: the loop writes it no more",
                str(self.path),
                "start again with --take-over to add to what it is now",
            )

    def take_over(self) -> None:
        """Take the file as it is now for the rules of before."""
        self._known = _content(self.path)
        self._original = self._parsed(self._known)
        self._before.unlink(missing_ok=True)

    def write(self, rules: Sequence[Rule], recorded: Recorded | None = None) -> None:
        """Replace the file by one with the rules of before and these.

        Raises EditedElsewhereError if somebody else changed the file meanwhile; IqcarError if the
        content would be no rules file, or cannot be written.

        rules: the loop's; without any the file gets the very bytes that it had before.
        recorded: what to compile them for; by default as for the rules written last. Queries at
            once are the most that were given so far.
        """
        self.check()
        if recorded is not None:
            most = max(recorded.running or 0, self._recorded.running or 0) or None
            self._recorded = msgspec.structs.replace(recorded, running=most)
        content = self.compiled(rules)
        parse_rules_file(content, str(self.path))
        if not self._before.exists():
            self._replace(self._before, self._original.content or b"")
        self._replace(self.path, content)
        self._known = content

    def compiled(self, rules: Sequence[Rule]) -> bytes:
        """Return the file's content with these rules of the loop."""
        original, known = self._original, self._recorded
        if not rules:
            return original.content or dump_rules((), PoolPlan(), known)
        every = [*original.file.rules, *map(self._named, rules)]
        plan_before = original.file.plan or PoolPlan()
        seen = _merged(plan_before.pools, [*original.file.recorded.pools, *known.pools])
        own = [pool for pool in seen if not pool.name.startswith(PREFIX)]
        slots, running = original.file.recorded.slots, original.file.recorded.running
        most = max(known.running or 0, running or 0) or None
        plan = compile_rules(every, known.slots or slots, most, own, all_rules=True)
        # Assignments that people wrote by hand belong to no rule.
        by_hand = tuple(one for one in plan_before.assignments if not one.rule_id)
        named = {one.pool for one in by_hand}
        pools = _merged(plan.pools, [pool for pool in plan_before.pools if pool.name in named])
        plan = PoolPlan(tuple(pools), (*by_hand, *plan.assignments), plan.notes)
        return dump_rules(every, plan, Recorded(known.slots or slots, most, tuple(own)))

    def stop(self, *, restore: bool) -> str:
        """End the loop: restore the rules of before, or leave what acts; say which.

        Raises IqcarError if it cannot be written.
        """
        try:
            self.check()
        except EditedElsewhereError:
            return f"{self.path} is left as somebody else edited it"
        if not self._before.exists():
            return f"{self.path} is as it was: the loop wrote nothing"
        if restore:
            self.write(())
        self._before.unlink(missing_ok=True)
        if not restore:
            return f"{self.path} keeps the rules that act now"
        had = "the rules of before" if self._original.content else "no rules, as before"
        return f"{self.path} has {had} again"

    def _named(self, rule: Rule) -> Rule:
        """Give a rule the id that it keeps in this loop."""
        key = key_of(rule)
        taken = {one.id for one in self.fixed} | set(self._ids.values())
        number = 1
        while key not in self._ids:
            name = f"{rule.rule_type}-{MARK}-{number}"
            if name not in taken:
                self._ids[key] = name
            number += 1
        return msgspec.structs.replace(rule, id=self._ids[key])

    def _recover(self) -> None:
        """Restore what a loop left that did not end by itself."""
        kept = _content(self._before) or b""
        content = kept or dump_rules((), PoolPlan(), Recorded())
        parse_rules_file(content, str(self._before))
        self._replace(self.path, content)
        self._before.unlink()
        self._known = content
        self.said.append(
            f"an earlier loop did not end by itself: {self.path} has the rules of before it again"
        )

    def _parsed(self, content: bytes | None) -> _Original:
        if content is None:
            return _Original(None, RulesFile((), None, Recorded()))
        return _Original(content, parse_rules_file(content, str(self.path)))

    def _replace(self, path: Path, content: bytes) -> None:
        try:
            write_derived(path, content, durable=True)
        except OSError as error:
            raise IqcarError(f"cannot be written: {error.strerror}", str(path)) from error


def _content(path: Path) -> bytes | None:
    try:
        with path.open("rb") as file:
            return file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", "") or str(error)
        raise IqcarError(f"cannot be read: {reason}", str(path), "check the path") from error


def _merged(first: Sequence[Pool], more: Sequence[Pool]) -> list[Pool]:
    """Join pools; of two with one name the first."""
    found: dict[str, Pool] = {}
    for pool in (*first, *more):
        found.setdefault(pool.name, pool)
    return list(found.values())
