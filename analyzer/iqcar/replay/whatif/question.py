"""Reads a what-if question from what a user wrote, and checks it.

How each part is written: :mod:`iqcar.replay.whatif.question_parts`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from iqcar.base.units import MOST_COUNT, exact_time, parse_price
from iqcar.errors import UsageError
from iqcar.replay.whatif.question_parts import (
    CHANGES,
    RECORDED,
    Part,
    PartKind,
    SlotsAsked,
    option_of,
)

MOST_VALUES = 16
"""Values of a range that are asked, in equal steps, first and last included."""
_RANGE = re.compile(r"(executors|slots)=(\d+)\.\.(\d+)(?::(\d+))?")


@dataclass(frozen=True)
class Question:
    """What to change; several fields are one joint intervention.

    Queries are named by id, name or fingerprint: all runs of a name are meant. Applications, in
    fields that end with ``_of``, are named by id, name, or a part that only one has; pools by name.
    Times are in ms, capacities and work are factors.
    """

    remove: tuple[str, ...] = ()
    start: dict[str, float] = field(default_factory=dict)
    cap: dict[str, int] = field(default_factory=dict)
    slots: int | None = None
    slots_in_all: int | None = None
    slots_of: dict[str, int] = field(default_factory=dict)
    slots_in_all_of: dict[str, int] = field(default_factory=dict)
    executors: int | None = None
    executors_of: dict[str, int] = field(default_factory=dict)
    hosts: int | None = None
    host_loss: tuple[str, ...] = ()
    disk: float | None = None
    network: float | None = None
    cpu: float | None = None
    host_cores: float | None = None
    pool: dict[str, int] = field(default_factory=dict)
    pool_weight: dict[str, int] = field(default_factory=dict)
    pool_min_share: dict[str, int] = field(default_factory=dict)
    mode: str | None = None
    mode_of: dict[str, str] = field(default_factory=dict)
    partitions: dict[str, int] = field(default_factory=dict)
    scale: dict[str, float] = field(default_factory=dict)
    no_skew: tuple[str, ...] = ()
    no_gc: bool = False
    starts: str = ""

    def __post_init__(self) -> None:
        """Refuse what contradicts itself."""
        amounts = self._amounts()
        if self.cpu is not None and self.host_cores is not None:
            raise UsageError(
                "both set the processors of hosts", "--cpu and --host-cores", "give one of them"
            )
        if self.hosts is not None and (amounts or (self.host_loss and self.hosts < 0)):
            other = [*amounts, *(["host_loss"] if self.host_loss else [])]
            raise UsageError(
                "both say where slots are", _options(["hosts", *other]), "give one of them"
            )
        for name in ("start", "cap", "pool", "partitions", "scale", "no_skew"):
            for query in getattr(self, name):
                if query in self.remove:
                    raise UsageError(
                        f"{query!r} is removed and changed", _options(["remove", name]),
                        "leave one of them out",
                    )  # fmt: skip
        for name in ("pool", "pool_weight", "pool_min_share"):
            if self.mode == "FIFO" and not self.mode_of and getattr(self, name):
                raise UsageError(
                    "FIFO has no pools", _options(["mode", name]), "leave one of them out"
                )

    def _amounts(self) -> list[str]:
        """Return what sets numbers of slots, once for each application or of all."""
        of_all = [name for name in AMOUNTS if getattr(self, name) is not None]
        of_one = [f"{name}_of" for name in AMOUNTS if getattr(self, f"{name}_of")]
        if len(of_all) > 1 or (of_all and of_one):
            raise UsageError(
                "both set the number of slots", _options([*of_all, *of_one]), "give one of them"
            )
        seen: dict[str, str] = {}
        for name in of_one:
            for app in getattr(self, name):
                if app in seen:
                    raise UsageError(
                        f"both set the number of slots of {app!r}", _options([seen[app], name]),
                        "give one of them",
                    )  # fmt: skip
                seen[app] = name
        return [*of_all, *of_one]

    @property
    def moves_slots(self) -> bool:
        """Whether it says how many slots or executors there are, of all or of some."""
        return bool(self._amounts())

    def __bool__(self) -> bool:
        """Whether anything is changed; how starts are decided changes nothing by itself."""
        return bool(self.to_dict().keys() - {"starts"})

    def to_dict(self) -> dict[str, Any]:
        """Return what is changed, without what is not."""
        found = {}
        for one in fields(self):
            value = getattr(self, one.name)
            if value not in (None, (), {}, False, ""):
                found[one.name] = list(value) if isinstance(value, tuple) else value
        return found

    def sentence(self) -> str:
        """Say what is changed, in a few words."""
        return ", ".join(self._words()) or "nothing changed"

    def _words(self) -> Iterable[str]:
        if self.remove:
            yield f"without {' and '.join(self.remove)}"
        for query, ms in self.start.items():
            yield f"{query} {exact_time(abs(ms))} {'later' if ms >= 0 else 'earlier'}"
        for query, most in self.cap.items():
            yield f"at most {most} task{'s' * (most != 1)} of {query} at once"
        yield from self._slot_words()
        if self.hosts is not None:
            word = "host" + "s" * (abs(self.hosts) != 1)
            yield f"{abs(self.hosts)} {word} {'more' if self.hosts >= 0 else 'fewer'}"
        for host in self.host_loss:
            yield f"host {host} lost"
        for name in ("disk", "network", "cpu"):
            if (factor := getattr(self, name)) is not None:
                yield f"{'processors' if name == 'cpu' else name} × {factor:g}"
        if self.host_cores is not None:
            yield f"{self.host_cores:g} processors per host"
        for query, weight in self.pool.items():
            yield f"{query} in a FAIR pool of weight {weight}"
        for pool, weight in self.pool_weight.items():
            yield f"pool {pool} of weight {weight}"
        for pool, slots in self.pool_min_share.items():
            yield f"pool {pool} with a minShare of {slots}"
        if self.mode is not None:
            yield f"scheduler mode {self.mode}"
        for app, mode in self.mode_of.items():
            yield f"scheduler mode {mode} in {app}"
        for query, tasks in self.partitions.items():
            yield f"{query} with {tasks} shuffle partitions"
        for query, factor in self.scale.items():
            yield f"{query} with {factor:g} × its data"
        for query in self.no_skew:
            yield f"{query} without skew"
        if self.no_gc:
            yield "no garbage collection"
        if self.starts == RECORDED:
            yield "starts as recorded"

    def _slot_words(self) -> Iterable[str]:
        of_apps: tuple[tuple[str, int | None, dict[str, int]], ...] = (
            ("slots", self.slots, self.slots_of),
            ("slots in all", self.slots_in_all, self.slots_in_all_of),
            ("executors", self.executors, self.executors_of),
        )
        for what, of_all, of_some in of_apps:
            every = {} if of_all is None else {"": of_all}
            for app, number in (every | of_some).items():
                of = f" of {app}" if app else ""
                if what == "slots":
                    yield f"{abs(number)} slots {'more' if number >= 0 else 'fewer'}{of}"
                elif what == "slots in all":
                    yield f"{number} slots{of}"
                else:
                    yield f"{number} executor{'s' * (number != 1)}{of}"


AMOUNTS = ("slots", "slots_in_all", "executors")
"""Fields that set a number of slots, of all applications; ``…_of``: of one."""


def _options(names: Iterable[str]) -> str:
    return " and ".join(dict.fromkeys(option_of(name) for name in names))


def ask(**given: Any) -> Question:
    """Read a question from what a user wrote: the fields of :class:`Question`.

    What is changed for some queries or pools is a mapping of name to value, or texts ``"Q=8"``;
    ``slots``, ``executors`` and ``mode`` are a value, or the same for some applications. A time is
    such as ``"+10m"``, or a number of ms; a factor such as ``"2x"``; ``slots`` with a sign is a
    change, a text without one the number of slots in all.

    Raises UsageError if a value cannot be read, is absurd, or contradicts another.
    """
    for name in given:
        if name not in CHANGES:
            raise TypeError(f"ask() got an unexpected keyword argument {name!r}")
    read: dict[str, Any] = {}
    for name, part in CHANGES.items():
        if given.get(name) is not None:
            read |= _read(name, part, given[name])
    return Question(**read)


def _read(name: str, part: Part, given: Any) -> dict[str, Any]:
    """Return the fields of a question that a part sets."""
    option = option_of(name)
    if part.kind is PartKind.BY_APPLICATION:
        return _read_by_application(name, part, given)
    if part.kind not in (PartKind.BY_QUERY, PartKind.BY_POOL):
        return {name: part.read(option, given)}
    values = _pairs(option, given, part.metavar)
    return {name: {one: part.read(f"{option} {one}", value) for one, value in values.items()}}


def _read_by_application(name: str, part: Part, given: Any) -> dict[str, Any]:
    """Read a value of all applications, or values of some."""
    option = option_of(name)
    many = isinstance(given, Iterable) and not isinstance(given, (str, Mapping))
    texts = list(given) if many else [given]
    plain = [one for one in texts if not (isinstance(one, Mapping) or "=" in str(one))]
    if len(dict.fromkeys(plain)) > 1:
        raise UsageError(f"is given twice: {plain[0]} and {plain[1]}", option, "give it once")
    of_some: dict[str, Any] = {}
    for one in texts:
        if one not in plain:
            for app, value in _pairs(option, one, part.forms[-1]).items():
                if of_some.setdefault(app, value) != value:
                    raise UsageError(f"{app!r} is given twice", option, "give it once")
    found: dict[str, Any] = {}
    for app, value in {**({"": plain[0]} if plain else {}), **of_some}.items():
        read = part.read(f"{option} {app}".strip(), value)
        field_of = name
        if isinstance(read, SlotsAsked):
            field_of, read = "slots_in_all" if read.in_all else "slots", read.number
        if app:
            found.setdefault(f"{field_of}_of", {})[app] = read
        else:
            found[field_of] = read
    return found


@dataclass(frozen=True)
class WhatIfRequest:
    """What is asked; several parts are answered apart from each other.

    question: What is changed; false where nothing is.
    plan: What :meth:`iqcar.diagnosis.WhatIfs.plan` takes; empty where no plan is asked.
    blame: The query whose waits are blamed by replays without the others; empty: none.
    """

    question: Question
    """What is changed; false where nothing is."""
    plan: dict[str, Any]
    """What :meth:`iqcar.diagnosis.WhatIfs.plan` takes; empty where no plan is asked."""
    blame: str
    """The query whose waits are blamed by replays without the others; empty: none."""


def parse_request(
    *, plan: str | None = None, price: str | None = None, blame: str | None = None, **changes: Any
) -> WhatIfRequest:
    """Check what a user wrote: :data:`iqcar.replay.whatif.question_parts.PARTS`, by name.

    Raises UsageError if nothing is asked, a value is absurd, or parts do not go together.
    """
    question = ask(**changes)
    each = parse_price(price) if price else None
    if each is not None and not plan:
        raise UsageError("is the price in a plan", "--price", "give --plan executors=4..64")
    planned = {}
    if plan:
        of_what, values = parse_plan(plan)
        planned = {of_what: values, "price": each}
    if not question and not planned and not blame:
        raise UsageError(
            "nothing to change", "iqcar whatif", "give --remove QUERY, --slots +8 or another option"
        )
    if question and planned:
        raise UsageError("a plan is asked alone", "--plan", "leave the other changes out")
    return WhatIfRequest(question, planned, blame or "")


def _pairs(option: str, given: Mapping[str, Any] | Iterable[str], like: str) -> dict[str, Any]:
    if hasattr(given, "items"):
        return dict(given.items())
    found: dict[str, Any] = {}
    for text in [given] if isinstance(given, str) else given:
        query, equals, value = text.rpartition("=")
        if not (query and equals and value):
            what = {"P": "pool", "A": "application"}.get(like[:1], "query")
            raise UsageError(f"names no {what} and value: {text!r}", option, f"give {like}")
        if query in found and found[query] != value:
            raise UsageError(f"{query!r} is given twice", option, "give it once")
        found[query] = value
    return found


def parse_plan(text: str) -> tuple[str, list[int]]:
    """Read ``executors=4..64`` or ``slots=8..64:8``.

    Raises UsageError if it is neither, or empty.
    """
    matched = _RANGE.fullmatch(text.replace(" ", ""))
    if matched is None:
        raise UsageError(
            f"is no range: {text!r}", "--plan", "give executors=4..64 or slots=8..64:8"
        )
    low, high, step = int(matched[2]), int(matched[3]), int(matched[4] or 0)
    if not 1 <= low < high <= MOST_COUNT:
        raise UsageError(f"is no range upwards from 1: {text!r}", "--plan", "give executors=4..64")
    if step:
        found = list(range(low, high + 1, step))
        if len(found) > MOST_VALUES:
            raise UsageError(
                f"asks for {len(found)} values", "--plan", f"take a step for at most {MOST_VALUES}"
            )
        return matched[1], found
    step_between = (high - low) / (MOST_VALUES - 1)
    return matched[1], sorted({round(low + k * step_between) for k in range(MOST_VALUES)})
