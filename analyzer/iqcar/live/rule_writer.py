"""Writes the rules file that the plugin watches, and notices if somebody else edits it.

The file is replaced as a whole, never written into, and its new content has passed the reader of
rules files first. Rules that were in the file before stay in it beside those of the loop, and their
bytes are kept in a file beside it (``RULES.before``), so that even a loop that was killed leaves
what its successor restores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from iqcar.base.files.derived import write_derived
from iqcar.errors import IqcarError
from iqcar.rules.compile_pools import (
    MAX_FILE_BYTES,
    RulesFile,
    compile_rules,
    dump_rules,
    parse_rules_file,
)
from iqcar.rules.recorded_setup import Recorded
from iqcar.rules.rule import PREFIX, Key, Pool, PoolPlan, Rule, key_of

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

    Parameters
    ----------
    path : a local file; made if it is missing.

    Attributes
    ----------
    said : what a person should know of how it was found, sentences without a full stop.
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

        Parameters
        ----------
        rules : the loop's; without any the file gets the very bytes that it had before.
        recorded : what to compile them for; by default as for the rules written last. Queries at
            once are the most that were given so far.
        """
        self.check()
        if recorded is not None:
            most = max(recorded.running or 0, self._recorded.running or 0) or None
            self._recorded = replace(recorded, running=most)
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
        return replace(rule, id=self._ids[key])

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
