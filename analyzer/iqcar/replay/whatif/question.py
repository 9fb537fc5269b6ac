"""A what-if question: interventions on a run, read from what a user wrote and checked."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from iqcar.errors import UsageError

_UNITS_MS = {"ms": 1.0, "s": 1e3, "m": 60e3, "min": 60e3, "h": 3600e3}
_TIME = re.compile(r"([+-]?)(\d+(?:\.\d+)?)(ms|s|min|m|h)")
_FACTOR = re.compile(r"(\d+(?:\.\d+)?)\s*[x×]?")
RECORDED, CHAINED = "recorded", "chained"
"""What decides when queries start: the record, or the end of the query that they waited for."""
MOST_FACTOR = 1000.0
MOST_COUNT = 100_000
MOST_LATER_MS = 31 * 24 * 3600e3


@dataclass(frozen=True)
class Question:
    """What to change; several fields are one joint intervention.

    Queries are named by id, name or fingerprint: all runs of a name are meant.

    Attributes
    ----------
    remove : queries that do not run.
    start : ms that queries start later (negative: earlier).
    cap : most tasks of a query that run at once.
    slots : change of the number of slots; ``slots_in_all`` is the number itself.
    executors : number of executors.
    hosts : hosts more (negative: fewer).
    host_loss : hosts that are not there.
    disk, network, cpu : factor of the capacity of every host's disk, network, processors.
    host_cores : processors of every host.
    pool : weight of a FAIR pool of its own, by query.
    mode : FAIR or FIFO.
    partitions : tasks of every stage of a query that reads a shuffle.
    scale : factor of the work of a query's tasks.
    no_skew : queries whose tasks have equal work within a stage.
    no_gc : whether nothing is collected.
    starts : ``recorded`` keeps all starts; else a query that started because another one had
        ended does so again.
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
            yield f"{query} {_time(abs(ms))} {'later' if ms >= 0 else 'earlier'}"
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
    return " and ".join("--" + name.removesuffix("_in_all").replace("_", "-") for name in names)


def _time(ms: float) -> str:
    for unit, each in (("h", 3600e3), ("min", 60e3), ("s", 1e3)):
        if ms >= each:
            return f"{ms / each:g} {unit}"
    return f"{ms:g} ms"


def ask(
    *,
    remove: str | Iterable[str] = (),
    start: Mapping[str, str | float] | Iterable[str] = (),
    cap: Mapping[str, int | str] | Iterable[str] = (),
    slots: int | str | None = None,
    executors: int | str | None = None,
    hosts: int | str | None = None,
    host_loss: str | Iterable[str] = (),
    disk: float | str | None = None,
    network: float | str | None = None,
    cpu: float | str | None = None,
    host_cores: float | str | None = None,
    pool: Mapping[str, int | str] | Iterable[str] = (),
    mode: str | None = None,
    partitions: Mapping[str, int | str] | Iterable[str] = (),
    scale: Mapping[str, float | str] | Iterable[str] = (),
    no_skew: str | Iterable[str] = (),
    no_gc: bool = False,
    starts: str | None = None,
) -> Question:
    """Read a question from what a user wrote.

    Parameters
    ----------
    remove, host_loss, no_skew : str or iterable of str
    start : mapping of query to a time such as ``"+10m"``, or numbers of ms; or texts ``"Q=+10m"``
    cap, pool, partitions : mapping of query to a number, or texts ``"Q=8"``
    scale : mapping of query to a factor such as ``"2x"``, or texts ``"Q=2x"``
    slots, hosts : int or str
        A change, such as ``+8``; a text without a sign is the number of slots in all.
    executors : int or str
        The number of executors.
    disk, network, cpu, host_cores : float or str
    mode : "FAIR" or "FIFO"
    no_gc : bool
    starts : "chained" (as by default) or "recorded"

    Raises
    ------
    UsageError
        If a value cannot be read, is absurd, or contradicts another.
    """
    change, in_all = _slots(slots)
    return Question(
        remove=_names(remove),
        start={q: _later(q, v) for q, v in _pairs("--start", start, "Q=+10m").items()},
        cap={q: _count(f"--cap {q}", v) for q, v in _pairs("--cap", cap, "Q=8").items()},
        slots=change,
        slots_in_all=in_all,
        executors=None if executors is None else _count("--executors", executors),
        hosts=None if hosts is None else _signed("--hosts", hosts),
        host_loss=_names(host_loss),
        disk=_factor("--disk", disk),
        network=_factor("--network", network),
        cpu=_factor("--cpu", cpu),
        host_cores=_factor("--host-cores", host_cores),
        pool={q: _count(f"--pool {q}", v) for q, v in _pairs("--pool", pool, "Q=3").items()},
        mode=_mode(mode),
        partitions={
            q: _count(f"--partitions {q}", v)
            for q, v in _pairs("--partitions", partitions, "Q=400").items()
        },
        scale={
            q: _known(_factor(f"--scale {q}", v))
            for q, v in _pairs("--scale", scale, "Q=2x").items()
        },
        no_skew=_names(no_skew),
        no_gc=no_gc,
        starts=_starts(starts),
    )


def _names(given: str | Iterable[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(dict.fromkeys(given))


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


def _slots(given: int | str | None) -> tuple[int | None, int | None]:
    if isinstance(given, str) and not given.startswith(("+", "-")):
        return None, _count("--slots", given)
    return (None if given is None else _signed("--slots", given)), None


def _signed(option: str, given: int | str) -> int:
    try:
        number = int(given)
    except ValueError:
        raise UsageError(f"is no change: {given!r}", option, "give +8 or -8") from None
    if number == 0 or abs(number) > MOST_COUNT:
        raise UsageError(
            f"changes nothing or too much: {given}", option, f"give +1 to +{MOST_COUNT}, or fewer"
        )
    return number


def _count(option: str, given: int | str) -> int:
    try:
        number = int(given)
    except ValueError:
        number = 0
    if not 1 <= number <= MOST_COUNT:
        raise UsageError(
            f"is no number from 1 to {MOST_COUNT}: {given!r}", option, "give a whole number"
        )
    return number


def _factor(option: str, given: float | str | None) -> float | None:
    if given is None:
        return None
    matched = _FACTOR.fullmatch(str(given).strip())
    factor = float(matched[1]) if matched else math.nan
    if not 1 / MOST_FACTOR <= factor <= MOST_FACTOR:
        raise UsageError(f"is no factor or number above 0: {given!r}", option, "give 2x or 0.5")
    return factor


def _known(factor: float | None) -> float:
    return 1.0 if factor is None else factor


def _later(query: str, given: str | float) -> float:
    where = f"--start {query}"
    if isinstance(given, (int, float)):
        ms = float(given)
    else:
        matched = _TIME.fullmatch(given.strip())
        if matched is None:
            raise UsageError(f"is no time: {given!r}", where, "give +10m, -30s or +1h")
        ms = float(matched[2]) * _UNITS_MS[matched[3]] * (-1 if matched[1] == "-" else 1)
    if not abs(ms) <= MOST_LATER_MS:
        raise UsageError(f"is more than a month: {given!r}", where, "give +10m, -30s or +1h")
    return ms


def _mode(given: str | None) -> str | None:
    if given is None:
        return None
    mode = given.upper()
    if mode not in ("FAIR", "FIFO"):
        raise UsageError(f"is no scheduler mode: {given!r}", "--mode", "give FAIR or FIFO")
    return mode


def _starts(given: str | None) -> str:
    if given not in (None, "", RECORDED, CHAINED):
        raise UsageError(
            f"says not when queries start: {given!r}", "--starts", f"give {RECORDED} or {CHAINED}"
        )
    return given or ""
