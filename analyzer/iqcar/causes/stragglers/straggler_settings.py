"""Declares the thresholds of the search for causes, each with its default and the reason for it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, TypeVar

from iqcar.enums import CauseEvidence, Kind
from iqcar.errors import UsageError

Chosen = TypeVar("Chosen", bound="Thresholds")
WORDS = {int: "a whole number", float: "a number", bool: "true or false"}
"""What an error calls the values of a type."""


@dataclass(frozen=True)
class Thresholds:
    """Base of settings: fields with defaults, of type int, float, bool or a kind of the package."""

    BOUNDS: ClassVar[Mapping[str, tuple[float, float]]] = {}
    """Least and largest value of each number."""

    def __post_init__(self) -> None:
        """Check the bounds; raises UsageError."""
        for name, (low, high) in self.BOUNDS.items():
            value = getattr(self, name)
            if not (math.isfinite(value) and low <= value <= high):
                raise UsageError(f"{value} is not from {low} to {high:g}", f"settings: {name}")

    @classmethod
    def parse(cls: type[Chosen], text: str, start: Chosen | None = None) -> Chosen:
        """Read ``name=value,name=value``.

        Raises UsageError if a name is unknown or a value does not fit it.

        start: values of the settings that the text does not name; the defaults if left out.
        """
        found = start or cls()
        types = {field.name: type(field.default) for field in fields(cls)}
        for part, name, value in named_values(text):
            if name not in types or value is None:
                raise UsageError(
                    f"{part!r} is no setting", "--settings", f"use NAME=VALUE of {', '.join(types)}"
                )
            found = replace(found, **{name: _value(name, value, types[name])})
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as numbers, booleans and strings."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {n: str(value) if isinstance(value, Kind) else value for n, value in values.items()}


def named_values(text: str) -> Iterator[tuple[str, str, str | None]]:
    """Split ``name=value,name=value``: each part, its name, and its value (None without ``=``)."""
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, sign, value = (piece.strip() for piece in part.partition("="))
        yield part, name, value if sign else None


def _value(name: str, text: str, kind: type) -> Any:
    try:
        return {"true": True, "false": False}[text] if kind is bool else kind(text)
    except (KeyError, ValueError):
        words = f"one of {', '.join(kind)}" if issubclass(kind, Kind) else WORDS[kind]
        raise UsageError(f"{text!r} is not {words}", f"settings: {name}") from None


@dataclass(frozen=True)
class StragglerSettings(Thresholds):
    """What counts as a straggler, and what as its cause (BigRoots §III).

    The paper prints 1.5, 0.2 and the two categories of peers. It tunes λq, λp, λe and the edge
    width by experiment and prints none of them; ours were chosen on stages with planted causes.
    """

    straggler: float = 1.5
    """A straggler took more than this times the stage's median duration (§II-A, from Mantri)."""
    quantile: float = 0.8
    """λq: a cause lies above this quantile of its stage (eq. 5). A fifth of a stage's tasks may
    share a cause, as many as one slow host of five runs."""
    ratio: float = 1.5
    """λp: a cause is more than this times its peers' mean (eq. 5); what is not as far off as the
    duration does not explain it."""
    edge: float = 0.5
    """λe: use of the host that was not at least this share of itself right before or right after
    the task was the task's own (eq. 6, read as its text says: drop it if both edges are low); 0 is
    no edge detection."""
    edge_ms: float = 3000.0
    """Width of the windows before and after the task: three samples of a second."""
    floor: float = 0.2
    """A time counts from this share of the task's duration on (§III-B)."""
    explains: float = 0.25
    """A measured wait counts if it explains this share of the straggler's time over the median:
    with less, at least three quarters of the delay had another cause."""
    least_tasks: int = 4
    """Stages of fewer tasks have no stragglers: their median is one of the tasks compared."""
    least_peers: int = 2
    """Fewer peers than this have no mean to be compared with."""
    worth: bool = True
    """Whether an amount counts only if it can matter (:mod:`~iqcar.causes.stragglers.root_causes`);
    the paper has a floor for times only."""
    shared: bool = True
    """Whether what the tasks of a host or executor share is compared with tasks elsewhere only,
    and not with the stage's quantile: where half of a stage ran on it, the quantile hides what its
    tasks have in common (garbage collection, say)."""
    slow_hosts: bool = True
    """Whether a straggler that nothing explains is put down to its host where the stage's other
    tasks there were slow too."""
    evidence: CauseEvidence = CauseEvidence.AUTO
    """What decides whether a resource delayed a straggler."""

    BOUNDS: ClassVar[Mapping[str, tuple[float, float]]] = {
        "straggler": (1, 1e6), "quantile": (0, 1), "ratio": (1, 1e6), "edge": (0, 1e6),
        "edge_ms": (1, 1e9), "floor": (0, 1), "explains": (0, 1), "least_tasks": (2, 1e9),
        "least_peers": (1, 1e9),
    }  # fmt: skip
