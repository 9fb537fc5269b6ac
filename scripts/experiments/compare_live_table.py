"""Print what comparisons of live sets of runs found, missed and said wrongly as Markdown tables."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tables import percent, table

MARGIN, LEAST_S = 0.05, 0.05
"""Relative change, and seconds, from which the driver's clock says that a query changed."""


class Judged(NamedTuple):
    """Queries of one arm by what was planted and what was said.

    found, missed, unharmed, false: planted queries that are listed; not listed though their time
    changed; not listed, and their time did not; and listed though nothing was planted in them.
    right, with_cause: of those found, the ones whose first cause is the planted one; all but new
    queries.
    """

    found: list[dict[str, Any]]
    missed: list[dict[str, Any]]
    unharmed: list[dict[str, Any]]
    false: list[dict[str, Any]]
    right: list[dict[str, Any]]
    with_cause: list[dict[str, Any]]


def compare_live(result: dict[str, Any]) -> str:
    """What was found of each change, what was not, and what was said though nothing changed."""
    judged = [(arm, judge(arm)) for arm in result["arms"]]
    head = (
        "change", "runs", "its queries", "found", "missed", "right cause", "false alarms",
        "causes named first",
    )  # fmt: skip
    parts = [
        f"Spark {result['spark']}; runs a side, in turns. Its queries: those that the change "
        "concerns and whose mean time changed by 5 % and 50 ms by the driver's clock, and new "
        "ones; found and false alarms are queries that are listed as changed. The cause is right "
        "where the first one is it, or a setting named with the first one.",
        table(head, [judged_row(arm, of) for arm, of in judged]),
    ]
    missed = [_missed(arm, query) for arm, of in judged for query in of.missed]
    parts += _listing("Missed:", missed)
    false = [_said(arm["arm"], query) for arm, of in judged for query in of.false]
    parts += _listing("False alarms:", false)
    wrong = [
        _said(arm["arm"], query)
        for arm, of in judged
        for query in of.with_cause
        if query not in of.right
    ]
    parts += _listing("Found, with another cause first:", wrong)
    return "\n\n".join([*parts, _quiet(result["quiet"])])


def judge(arm: dict[str, Any]) -> Judged:
    """Sort the queries of an arm."""
    of = Judged([], [], [], [], [], [])
    for query in arm["queries"]:
        if not query["planted"]:
            of.false.extend([query] if query["listed"] else [])
        elif not query["listed"]:
            (of.missed if has_changed(query) else of.unharmed).append(query)
        else:
            of.found.append(query)
            if query["kind"] not in ("added", "removed"):
                of.with_cause.append(query)
                of.right.extend([query] if _is_right(query) else [])
    return of


def has_changed(query: dict[str, Any]) -> bool:
    """Tell whether a query is new, or its mean time changed by as much as matters."""
    if not query["before_s"] or not query["after_s"]:
        return True
    before, after = statistics.mean(query["before_s"]), statistics.mean(query["after_s"])
    return abs(after - before) >= max(MARGIN * min(before, after), LEAST_S)


def _is_right(query: dict[str, Any]) -> bool:
    """Tell whether the first cause, or a setting named with it, is a planted one."""
    return any(cause.startswith(tuple(query["planted"])) for cause in first_causes(query))


def first_causes(query: dict[str, Any]) -> list[str]:
    """The first cause, and the settings that fit it, which follow it."""
    names = [cause for cause, _ in query["causes"]]
    settings = []
    for name in names[1:]:
        if not name.startswith(("conf:", "version:")):
            break
        settings.append(name)
    return [*names[:1], *settings]


def judged_row(arm: dict[str, Any], of: Judged) -> list[str]:
    """One change: its queries, and what was said of them."""
    concerned = [query for query in (*of.found, *of.missed) if has_changed(query)]
    named = Counter(
        " + ".join(_short(cause) for cause in first_causes(query)) or "none"
        for query in (*of.with_cause, *of.false)
    )
    return [
        arm["change"],
        str(max(len(query["before_s"]) for query in arm["queries"])),
        str(len(concerned)) if arm_is_planted(arm) else "–",
        str(len(of.found)) if arm_is_planted(arm) else "–",
        str(len(of.missed)) if arm_is_planted(arm) else "–",
        f"{len(of.right)} of {len(of.with_cause)}" if of.with_cause else "–",
        str(len(of.false)),
        ", ".join(f"{cause} ({count})" for cause, count in named.most_common()) or "–",
    ]


def arm_is_planted(arm: dict[str, Any]) -> bool:
    """Tell whether anything was changed."""
    return any(query["planted"] for query in arm["queries"])


def _short(cause: str) -> str:
    """A cause without the operators of a plan."""
    kind, _, name = cause.partition(":")
    return f"`{kind}`" if kind == "plan" else f"`{kind}:{name}`" if name else f"`{kind}`"


def _missed(arm: dict[str, Any], query: dict[str, Any]) -> str:
    needed = f", needs {query['runs_needed']} runs a side" if query["runs_needed"] else ""
    verdict = query["verdict"].replace("_", " ")
    return f"{arm['arm']}: {query['query']}, {_times(query)}: {verdict}{needed}"


def _said(arm: str, query: dict[str, Any]) -> str:
    why = "; ".join(_escaped(sentence) for _, sentence in query["causes"][:2])
    by = query["evidence"] or ", ".join(
        dict.fromkeys(word for stage in query["stages"] for word in stage["evidence"].split(", "))
    )
    return f"{arm}: {query['query']}, {_times(query)}, by {by}: {query['kind']}, {why}"


def _times(query: dict[str, Any]) -> str:
    before, after = query["before_ms"] / 1e3, query["after_ms"] / 1e3
    return f"{before:.2f} → {after:.2f} s ({percent(after / before - 1) if before else 'new'})"


def _escaped(text: str) -> str:
    short = text if len(text) < 160 else text[:159] + "…"
    return short.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def _listing(title: str, lines: Sequence[str]) -> Iterable[str]:
    return [title, "\n".join(f"- {line}" for line in lines)] if lines else []


def _quiet(pairs: Sequence[dict[str, Any]]) -> str:
    """Sets before, of two arms: equal, but not in turns."""
    if not pairs:
        return ""
    alarmed = [pair for pair in pairs if pair["listed"]]
    kinds = Counter(one["kind"] for pair in alarmed for one in pair["listed"])
    said = ", ".join(f"{kind} ({count})" for kind, count in kinds.most_common())
    return (
        f"The sets before of two changes each are equal, too, but were not measured in turns: of "
        f"{len(pairs)} such pairs {len(alarmed)} have a finding"
        + (f", {sum(kinds.values())} queries in all: {said}." if alarmed else ".")
    )
