"""Reads a what-if question from what a user wrote, and checks it.

Each row of :data:`PARTS` says how one part is written: the options of the command, the fields of
the API, the form and the tool for agents are made from these rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any

from iqcar.base.units import (
    MOST_COUNT,
    exact_time,
    parse_change,
    parse_count,
    parse_factor,
    parse_price,
    parse_shift,
)
from iqcar.errors import UsageError

RECORDED, CHAINED = "recorded", "chained"
"""What decides when queries start: the record, or the end of the query that they waited for."""
MOST_VALUES = 16
"""Values of a range that are asked, in equal steps, first and last included."""
_RANGE = re.compile(r"(executors|slots)=(\d+)\.\.(\d+)(?::(\d+))?")


def _names(option: str, given: str | Iterable[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(dict.fromkeys(given))


def _mode(option: str, given: str) -> str:
    mode = given.upper()
    if mode not in ("FAIR", "FIFO"):
        raise UsageError(f"is no scheduler mode: {given!r}", option, "give FAIR or FIFO")
    return mode


def _starts(option: str, given: str) -> str:
    if given not in ("", RECORDED, CHAINED):
        raise UsageError(
            f"says not when queries start: {given!r}", option, f"give {RECORDED} or {CHAINED}"
        )
    return given


class PartKind(Enum):
    """How a part of a question is given."""

    NAMES = "names of queries or hosts"
    BY_QUERY = "a value for each of some queries"
    VALUE = "a value"
    FLAG = "yes or no"


SEVERAL = (PartKind.NAMES, PartKind.BY_QUERY)
"""Kinds that can be given several times."""


@dataclass(frozen=True)
class Part:
    """How one part of a question is written.

    metavar: How it is written in the command's help.
    help: What it means, one sentence.
    read: Reads one value; called with the option, for messages, and what was given.
    label: What the form calls it; empty where the form lays it out by itself.
    like: An example, where it is not the metavar.
    """

    kind: PartKind
    metavar: str
    """How it is written in the command's help."""
    help: str
    """What it means, one sentence."""
    read: Callable[[str, Any], Any] = lambda _, given: given
    """Reads one value; called with the option, for messages, and what was given."""
    label: str = ""
    """What the form calls it; empty where the form lays it out by itself."""
    like: str = ""
    """An example, where it is not the metavar."""

    @property
    def example(self) -> str:
        """A value as one types it, of a single query."""
        return self.like or self.metavar.removeprefix("Q=").replace("|", " or ")


@dataclass(frozen=True)
class Question:
    """What to change; several fields are one joint intervention.

    Queries are named by id, name or fingerprint: all runs of a name are meant. Times are in ms,
    capacities and work are factors.
    """

    remove: tuple[str, ...] = ()
    start: dict[str, float] = field(default_factory=dict)
    cap: dict[str, int] = field(default_factory=dict)
    slots: int | None = None
    slots_in_all: int | None = None
    executors: int | None = None
    hosts: int | None = None
    host_loss: tuple[str, ...] = ()
    disk: float | None = None
    network: float | None = None
    cpu: float | None = None
    host_cores: float | None = None
    pool: dict[str, int] = field(default_factory=dict)
    mode: str | None = None
    partitions: dict[str, int] = field(default_factory=dict)
    scale: dict[str, float] = field(default_factory=dict)
    no_skew: tuple[str, ...] = ()
    no_gc: bool = False
    starts: str = ""

    def __post_init__(self) -> None:
        """Refuse what contradicts itself."""
        amounts = [
            name
            for name in ("slots", "slots_in_all", "executors")
            if getattr(self, name) is not None
        ]
        if len(amounts) > 1:
            raise UsageError("both set the number of slots", _options(amounts), "give one of them")
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
        if self.mode == "FIFO" and self.pool:
            raise UsageError("FIFO has no pools", "--mode and --pool", "leave one of them out")

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
        if self.slots is not None:
            yield f"{abs(self.slots)} slots {'more' if self.slots >= 0 else 'fewer'}"
        if self.slots_in_all is not None:
            yield f"{self.slots_in_all} slots"
        if self.executors is not None:
            yield f"{self.executors} executor{'s' * (self.executors != 1)}"
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
        if self.mode is not None:
            yield f"scheduler mode {self.mode}"
        for query, tasks in self.partitions.items():
            yield f"{query} with {tasks} shuffle partitions"
        for query, factor in self.scale.items():
            yield f"{query} with {factor:g} × its work"
        for query in self.no_skew:
            yield f"{query} without skew"
        if self.no_gc:
            yield "no garbage collection"
        if self.starts == RECORDED:
            yield "starts as recorded"


def _options(names: Iterable[str]) -> str:
    return " and ".join(option_of(name) for name in names)


_NAMES, _BY_QUERY, _VALUE, _FLAG = PartKind
CHANGES: dict[str, Part] = {
    "remove": Part(_NAMES, "Q", "Without this query.", _names),
    "start": Part(
        _BY_QUERY,
        "Q=+10m",
        "Start a query later (or -10m earlier).",
        parse_shift,
        "starts later by",
    ),
    "cap": Part(
        _BY_QUERY,
        "Q=8",
        "At most so many tasks of a query at once.",
        parse_count,
        "most tasks at once",
    ),
    "slots": Part(
        _VALUE, "+8|24", "Slots more or fewer, or so many in all.", parse_change, "Slots"
    ),
    "executors": Part(
        _VALUE, "N", "So many executors of the usual size.", parse_count, "Executors", like="8"
    ),
    "hosts": Part(_VALUE, "+2", "Hosts more or fewer, with their slots.", parse_change, "Hosts"),
    "host_loss": Part(_NAMES, "HOST", "Without this host from the start.", _names),
    "disk": Part(_VALUE, "2x", "Capacity of every host's disk.", parse_factor, "Disks"),
    "network": Part(_VALUE, "2x", "Capacity of every host's network.", parse_factor, "Network"),
    "cpu": Part(_VALUE, "2x", "Number of every host's processors.", parse_factor, "Processors"),
    "host_cores": Part(
        _VALUE, "16", "Processors of every host.", parse_factor, "Processors per host"
    ),
    "pool": Part(
        _BY_QUERY,
        "Q=3",
        "A FAIR pool of its own with this weight.",
        parse_count,
        "FAIR pool of weight",
    ),
    "mode": Part(_VALUE, "FAIR|FIFO", "Scheduler mode of all applications.", _mode),
    "partitions": Part(
        _BY_QUERY,
        "Q=400",
        "Tasks of stages that read a shuffle.",
        parse_count,
        "shuffle partitions",
    ),
    "scale": Part(_BY_QUERY, "Q=2x", "Work of a query's tasks.", parse_factor, "its work"),
    "no_skew": Part(_NAMES, "Q", "Equal work for all tasks of a stage.", _names),
    "no_gc": Part(_FLAG, "", "No garbage collection."),
    "starts": Part(
        _VALUE,
        "recorded|chained",
        "Queries start when they did, or after the one that they waited for (default).",
        _starts,
    ),
}
"""What can be changed: the fields of :class:`Question`, by the name that Python, the API and the
form use."""
PARTS: dict[str, Part] = {
    **CHANGES,
    "plan": Part(
        _VALUE, "executors=4..64",
        "Ask about each number of executors (or slots) instead: what it takes and costs.",
    ),
    "price": Part(_VALUE, "0.4/h", "Price of one executor (or slot) for --plan."),
    "blame": Part(
        _VALUE, "Q",
        "Ask who made this query wait, by replays without the others (Shapley values).",
    ),
}  # fmt: skip
"""All that can be asked: changes, and what is asked instead of a change."""


def option_of(name: str) -> str:
    """Return the option of the command that asks for it."""
    return "--" + name.removesuffix("_in_all").replace("_", "-")


def ask(**given: Any) -> Question:
    """Read a question from what a user wrote: the fields of :class:`Question`.

    What is changed for some queries is a mapping of query to value, or texts ``"Q=8"``; a time is
    such as ``"+10m"``, or a number of ms; a factor such as ``"2x"``; ``slots`` with a sign is a
    change, a text without one the number of slots in all.

    Raises UsageError if a value cannot be read, is absurd, or contradicts another.
    """
    for name in given:
        if name not in CHANGES:
            raise TypeError(f"ask() got an unexpected keyword argument {name!r}")
    read = {
        name: _read(part, option_of(name), given[name])
        for name, part in CHANGES.items()
        if given.get(name) is not None and not (name == "slots" and _is_in_all(given[name]))
    }
    if _is_in_all(given.get("slots")):
        read["slots_in_all"] = parse_count("--slots", given["slots"])
    return Question(**read)


def _read(part: Part, option: str, given: Any) -> Any:
    if part.kind is not PartKind.BY_QUERY:
        return part.read(option, given)
    values = _pairs(option, given, part.metavar)
    return {query: part.read(f"{option} {query}", value) for query, value in values.items()}


def _is_in_all(slots: int | str | None) -> bool:
    return isinstance(slots, str) and not slots.startswith(("+", "-"))


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
    """Check what a user wrote: :data:`PARTS`, by name.

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
            raise UsageError(f"names no query and value: {text!r}", option, f"give {like}")
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
