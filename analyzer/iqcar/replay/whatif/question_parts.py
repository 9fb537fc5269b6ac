"""Declares how each part of a what-if question is written.

Each row of :data:`PARTS` says how one part is written: the options of the command, the fields of
the API, the form and the tool for agents are made from these rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from iqcar.base.units import parse_change, parse_count, parse_factor, parse_shift
from iqcar.errors import UsageError

RECORDED, CHAINED = "recorded", "chained"
"""What decides when queries start: the record, or the end of the query that they waited for."""


@dataclass(frozen=True)
class SlotsAsked:
    """A change of the number of slots, or the number in all."""

    number: int
    in_all: bool


def _slots(option: str, given: int | str) -> SlotsAsked:
    if isinstance(given, str) and not given.strip().startswith(("+", "-")):
        return SlotsAsked(parse_count(option, given), in_all=True)
    return SlotsAsked(parse_change(option, given), in_all=False)


def _names(option: str, given: str | Iterable[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(dict.fromkeys(given))


def _mode(option: str, given: str) -> str:
    mode = given.upper()
    if mode not in ("FAIR", "FIFO"):
        raise UsageError(f"is no scheduler mode: {given!r}", option, "give FAIR or FIFO")
    return mode


def _min_share(option: str, given: int | str) -> int:
    return 0 if str(given).strip() == "0" else parse_count(option, given)


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
    BY_POOL = "a value for each of some pools"
    BY_APPLICATION = "a value, of all applications or for each of some"
    VALUE = "a value"
    FLAG = "yes or no"


SEVERAL = (PartKind.NAMES, PartKind.BY_QUERY, PartKind.BY_POOL, PartKind.BY_APPLICATION)
"""Kinds that can be given several times."""
OF_ONE = "APP="
"""What stands before a value that is of one application."""


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

    @property
    def forms(self) -> tuple[str, ...]:
        """Return each way to write it."""
        plain = tuple(self.metavar.split("|"))
        if self.kind is not PartKind.BY_APPLICATION:
            return plain
        return (*plain, f"{OF_ONE}{plain[0]}")

    @property
    def in_help(self) -> str:
        """How it is written, in the command's help."""
        return "|".join(self.forms)


_NAMES, _BY_QUERY, _BY_POOL, _BY_APPLICATION, _VALUE, _FLAG = PartKind
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
        _BY_APPLICATION,
        "+8|24",
        "Slots more or fewer, or so many in all; of all applications, or of one.",
        _slots,
        "Slots",
    ),
    "executors": Part(
        _BY_APPLICATION,
        "N",
        "So many executors of the usual size, of all applications or of one.",
        parse_count,
        "Executors",
        like="8",
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
    "pool_weight": Part(
        _BY_POOL, "POOL=4", "Weight of a pool that there is.", parse_count, "Weight of a pool"
    ),
    "pool_min_share": Part(
        _BY_POOL, "POOL=8", "minShare of a pool that there is.", _min_share, "minShare of a pool"
    ),
    "mode": Part(
        _BY_APPLICATION, "FAIR|FIFO", "Scheduler mode of all applications, or of one.", _mode
    ),
    "partitions": Part(
        _BY_QUERY,
        "Q=400",
        "Tasks of stages that read a shuffle.",
        parse_count,
        "shuffle partitions",
    ),
    "scale": Part(
        _BY_QUERY,
        "Q=2x",
        "Data of a query: more tasks where data adds tasks, else longer ones.",
        parse_factor,
        "its data",
    ),
    "no_skew": Part(_NAMES, "Q", "Equal work for all tasks of a stage.", _names),
    "no_gc": Part(_FLAG, "", "No garbage collection."),
    "starts": Part(
        _VALUE,
        "recorded|chained",
        "Queries start when they did, or after the one that they waited for (default).",
        _starts,
    ),
}
"""What can be changed, by the name that Python, the API and the form use: the fields of
:class:`iqcar.replay.whatif.question.Question`."""
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
    return "--" + name.removesuffix("_of").removesuffix("_in_all").replace("_", "-")
