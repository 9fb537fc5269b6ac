"""Says what a query lost: of what, to whom, on which hosts; and what its tasks waited for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from iqcar.base.limits import LEAST_MISSING
from iqcar.base.units import duration, percent, printable, resource_name
from iqcar.diagnosis import Diagnosis
from iqcar.enums import BlameKind, QueryStatus, Resource
from iqcar.rules.vocabulary import query_status
from iqcar.say.blamed import cause_name
from iqcar.say.section import range_words
from iqcar.tables import Tables, texts
from iqcar.tables.arrays import Floats

if TYPE_CHECKING:
    from iqcar.say.blamed import Blamed, QueryNames


NOTHING = 0.02
"""Share of its run up to which a query may have lost nothing to others."""
MUCH = 0.1
"""Share of its run from which it matters that a query may have lost it."""
_TELLS = {
    Resource.IO: "with the plugin's disk samples it can",
    Resource.NETWORK: "the plugin's samples show how busy the network was",
    Resource.CPU: "with the waits that the plugin measures it can",
    Resource.MEMORY: "with the waits for memory that the plugin measures it can",
}
"""What tells how much was lost to each resource."""


@dataclass(frozen=True)
class LostToOthers:
    """What a query, or runs of one, lost to other queries.

    ran_ms: its duration; NaN if unknown.
    lost_ms, low_ms, high_ms: the amount and its range, NaN where no replay tells the range.
    decided_by: the resource whose use would narrow the range most if it were recorded.
    """

    ran_ms: float
    lost_ms: float
    low_ms: float = float("nan")
    high_ms: float = float("nan")
    decided_by: Resource | None = None

    @property
    def is_open(self) -> bool:
        """Whether nothing and much are both likely, so that no amount can be said."""
        low, high = NOTHING * self.ran_ms, MUCH * self.ran_ms
        return bool(self.ran_ms > 0 and self.low_ms <= low and self.high_ms >= high)

    @property
    def why_open(self) -> str:
        """What would tell the amount; empty where the range is no wider than usual."""
        if not self.is_open:
            return ""
        if self.decided_by is None:
            return "this log cannot tell"
        return f"this log cannot tell; {_TELLS[self.decided_by]}"

    @property
    def amount(self) -> str:
        """``12.0 s (8.0 s … 15.0 s), 30 % of its run``."""
        if self.is_open:
            return f"between 0 and {percent(min(self.high_ms / self.ran_ms, 1.0))} of its run"
        said = self._with_range
        share = min(self.lost_ms / self.ran_ms, 1.0) if self.ran_ms > 0 else 0.0
        return f"{said}, {percent(share)} of its run" if share > 0 else said

    @property
    def short(self) -> str:
        """``12.0 s (8.0 s … 15.0 s)``, as in a table."""
        if self.is_open:
            return f"0 … {duration(self.high_ms)}"
        return self._with_range if self.lost_ms > 0 else ""

    @property
    def _with_range(self) -> str:
        said, within = duration(self.lost_ms), range_words(self.low_ms, self.high_ms)
        told = duration(self.low_ms) != duration(self.high_ms)
        return f"{said} ({within})" if np.isfinite(self.low_ms) and told else said

    @property
    def words(self) -> str:
        """What was lost to others, as the end of a sentence; empty where it is nothing."""
        if self.is_open:
            return f"to other queries {self.amount}: {self.why_open}"
        return f"to other queries {self.amount}" if self.lost_ms > 0 else ""


class OthersLosses:
    """What every query lost to others."""

    def __init__(self, diagnosis: Diagnosis, lost: Floats) -> None:
        """Take in a diagnosis; ``lost``: what each query is said to have lost at most."""
        self.ran = diagnosis.tables.queries["duration_ms"].to_numpy(np.float64)
        self.lost = np.minimum(diagnosis.lost_to_others_ms(), lost)
        self._within = diagnosis.others_range

    def of(self, runs: Sequence[int]) -> LostToOthers:
        """Sum the runs of a query."""
        rows = list(runs)
        ran, lost = float(self.ran[rows].sum()), self.lost[rows]
        within = self._within
        low, high = within.low_ms[rows], within.high_ms[rows]
        known = np.isfinite(low)
        if not known.any():
            return LostToOthers(ran, float(lost.sum()))
        width = np.where(known, high - low, 0.0)
        widest = within.decided_by[rows[int(width.argmax())]]
        least, most = (float(np.where(known, ms, lost).sum()) for ms in (low, high))
        said = float(lost.sum())
        return LostToOthers(ran, said, min(least, said), max(most, said), widest)

    @property
    def most_open(self) -> int:
        """Row of the query that may have lost most of those of which that is open; −1 if none."""
        open_ = [row for row in range(len(self.ran)) if self.of([row]).is_open]
        return max(open_, key=lambda row: float(self._within.high_ms[row]), default=-1)


WORTH_NAMING = 0.1
"""A part of the loss from a tenth on is named in the sentence."""
MOST_PARTS = 3
"""Parts named in one sentence; the bar or table below it shows all."""
MOSTLY = 0.75
"""Share of a part from which one host, or one resource, stands for it."""
LEAST_IDLE = 0.1
"""Share of the time in which executors were held from which on idle ones are mentioned."""

_HELD = {
    Resource.SLOTS: "waiting for slots held by",
    Resource.EXECUTORS: "waiting for executors held by",
    Resource.CPU: "waiting for CPU used by",
    Resource.MEMORY: "waiting for memory held by",
    Resource.NETWORK: "waiting for the network used by",
    Resource.IO: "waiting for disks used by",
}
_KNOWN = {
    Resource.SLOTS: "while it had no executors yet",
    Resource.EXECUTORS: "to the limit of its queue",
    Resource.CPU: "for garbage collection",
    Resource.MEMORY: "for pages of memory from disks or swap",
    Resource.NETWORK: "to hosts whose network is slow for everybody",
    Resource.IO: "to hosts whose disks are slow for everybody",
}


class SentencePart(NamedTuple):
    """A part of what a query lost: one line of blame, by resource where that is a query."""

    blamed: Blamed
    resource: Resource | None
    lost_ms: float
    share: float


def parts_of(blamed: Sequence[Blamed]) -> list[SentencePart]:
    """Split the time lost to queries by what was waited for.

    Returns the largest first. ``resource`` is None for what is no query. Lost times sum to the
    query's.
    """
    parts: list[SentencePart] = []
    for one in blamed:
        if one.kind in (BlameKind.QUERY, BlameKind.REST):
            parts += [
                SentencePart(one, resource, ms, one.share * ms / one.lost_ms)
                for resource, ms in one.by_resource.items()
            ]
        else:
            parts.append(SentencePart(one, None, one.lost_ms, one.share))
    return sorted(parts, key=lambda part: -part.lost_ms)


def loss_sentence(
    name: str,
    lost_ms: float,
    others: LostToOthers,
    parts: Sequence[SentencePart],
    names: QueryNames,
) -> str:
    """Say what one query lost of its run, where the largest parts went, and what to others."""
    ran_ms, to_others = others.ran_ms, others.words
    to_others = f" {to_others[0].upper()}{to_others[1:]}." if to_others else ""
    if not lost_ms > 0:
        return f"{name} lost no time that could be measured.{to_others}"
    known = bool(np.isfinite(ran_ms)) and ran_ms > 0
    of_run, whole = (f" of its {duration(ran_ms)}", ran_ms) if known else ("", lost_ms)
    everywhere = {host for part in parts for host, ms in part.blamed.by_host.items() if ms > 0}
    large = [part for part in parts if part.share >= WORTH_NAMING]
    named = [
        part for part in large if part.blamed.kind not in (BlameKind.UNATTRIBUTED, BlameKind.REST)
    ][:MOST_PARTS]
    said = [(part.share, _part_words(part, names, len(everywhere))) for part in named]
    unattributed = sum(p.share for p in parts if p.blamed.kind is BlameKind.UNATTRIBUTED)
    rest = 1 - unattributed - sum(part.share for part in named)
    if rest >= WORTH_NAMING:
        small = "in smaller parts" if said else "in parts, none larger than a tenth"
        said.append((rest, small))
    if unattributed > 0:
        said.append((unattributed, cause_name(BlameKind.UNATTRIBUTED)))
    parts_said = "; ".join(f"{amount(share * lost_ms, whole)} {words}" for share, words in said)
    return f"{name} lost {duration(lost_ms)}{of_run}: {parts_said}.{to_others}"


def _part_words(part: SentencePart, names: QueryNames, hosts: int) -> str:
    one = part.blamed
    if part.resource is not None:
        who = names.called(one.query)
        if part.resource is Resource.EXECUTORS:
            return f"{_HELD[part.resource]} {who}{names.of_application(one.query)}{_idle(part)}"
        cached = part.resource is Resource.MEMORY and one.cached
        held = f" (holds {one.cached})" if cached else ""
        return f"{_HELD[part.resource]} {who}{held} {_where(one.by_host, hosts)}".rstrip()
    resource, ms = next(iter(one.by_resource.items()))
    if one.limited:
        return "while the CPU limit of its executors stopped them"
    if one.kind is BlameKind.KNOWN:
        return _KNOWN.get(resource, f"for {one.name}")
    if ms >= MOSTLY * one.lost_ms:
        return f"{_HELD[resource]} its own tasks"
    return "by its own tasks in each other's way"


def _idle(part: SentencePart) -> str:
    """Say that executors were held without tasks: those are the cheapest to give back."""
    share = part.blamed.idle_ms / part.lost_ms
    if share >= 1 - LEAST_IDLE:
        return ", idle"
    return f", idle for {percent(share)} of it" if share >= LEAST_IDLE else ""


def _where(by_host: Mapping[str, float], everywhere: int) -> str:
    """Hosts in words: one, mostly one, all, or so many of them."""
    lost = {printable(host): ms for host, ms in by_host.items() if ms > 0}
    if not lost:
        return ""
    name, most = next(iter(lost.items()))
    if len(lost) == 1:
        return f"on {name}"
    if most >= MOSTLY * sum(lost.values()):
        return f"mostly on {name}"
    if len(lost) == everywhere:
        return "on both hosts" if len(lost) == 2 else f"on all {len(lost)} hosts"
    return f"on {len(lost)} of {everywhere} hosts"


def amount(part_ms: float, whole_ms: float) -> str:
    """Write a duration with its share of a whole: ``12.0 s (86 %)``."""
    share = f" ({percent(part_ms / whole_ms)})" if whole_ms > 0 and part_ms > 0 else ""
    return duration(part_ms) + share


def query_statuses(tables: Tables) -> list[QueryStatus]:
    """Return what became of each query."""
    queries = tables.queries
    return [
        query_status(bool(ended), bool(failed), error)
        for ended, failed, error in zip(
            queries["ended"], queries["failed"], texts(queries, "error"), strict=True
        )
    ]


def told_run(ran_ms: float, status: QueryStatus) -> str:
    """Say in a cell how long a query ran: ``3.2 s``, ``3.2 s failed``, ``3.2 s …``."""
    ends = {QueryStatus.SUCCEEDED: "", QueryStatus.RUNNING: " …"}
    return f"{duration(ran_ms)}{ends.get(status, f' {status}')}"


def outcome_words(status: QueryStatus, error: str) -> str:
    """Say what became of a query; empty where it ended well."""
    if status is QueryStatus.SUCCEEDED:
        return ""
    if status is QueryStatus.RUNNING:
        return "it had not ended when the log was read"
    was = "it was cancelled" if status is QueryStatus.CANCELLED else "it failed"
    return f"{was}: {printable(error).rstrip('.')}" if error else was


def run_words(lost_ms: float, others: LostToOthers, outcome: str) -> str:
    """Say how long a query ran, what it lost, what of that to other queries, what became of it."""
    words = f"ran {duration(others.ran_ms)} and lost {amount(lost_ms, others.ran_ms)}"
    if others.words:
        words += f"; {others.words}"
    elif lost_ms > 0:
        words += ", none of it to other queries in these logs"
    return f"{words}; {outcome}" if outcome else words


def wait_words(diagnosis: Diagnosis, query: int) -> str:
    """List a query's task waits by resource, each with its evidence."""
    size = len(Resource)
    rows = diagnosis.query_waits.iloc[query * size : (query + 1) * size]
    parts = []
    for wait in rows.to_dict("records"):
        if wait["resource"] == Resource.EXECUTORS.value and not wait["wait_ms"] > 0:
            continue  # no other application was in the way: most inputs have one only
        name = resource_name(wait["resource"])
        if np.isnan(wait["wait_ms"]):
            parts.append(f"{name} not recorded")
            continue
        doubt = wait["evidence"]
        if wait["missing_share"] > LEAST_MISSING:
            doubt += f", unknown for {percent(wait['missing_share'])} of task time"
        parts.append(f"{name} {duration(wait['wait_ms'])} ({doubt})")
    return " · ".join(parts)


def counts(tables: Tables) -> list[str]:
    """Count what was read: ``1 application``, ``12 queries``, ``3,400 tasks``, ``4 hosts``."""
    numbers = (
        (len(tables.applications), "application", "applications"),
        (len(tables.queries), "query", "queries"),
        (int(tables.inputs["tasks"].sum()), "task", "tasks"),
        (len(set(tables.tasks["host"].tolist()) - {-1}), "host", "hosts"),
    )
    return [f"{n:,} {one if n == 1 else several}" for n, one, several in numbers]
