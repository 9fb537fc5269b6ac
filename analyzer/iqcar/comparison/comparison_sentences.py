"""Says in sentences what was compared and what differs; terminal, page and notebook show them."""

from __future__ import annotations

from collections.abc import Sequence

from iqcar.base.units import duration, percent, short, signed
from iqcar.comparison.comparison import Comparison, relative
from iqcar.comparison.sides.side import SideFacts
from iqcar.enums import ChangeKind

MOST_NAMED = 5
"""Queries without a verdict, hosts and settings that are named; the rest is counted."""
NAME_WIDTH = 60
"""Characters of a query's name."""
VALUE_WIDTH = 40
"""Characters of a setting's value."""


def changes_headline(comparison: Comparison) -> str:
    """Say how many queries changed, and which most, by how much and why."""
    changes = comparison.changes
    queries = changes[changes["parent"].to_numpy() < 0]
    if queries.empty:
        return "Nothing changed."
    first = queries.iloc[0]
    relation = relative(first["before_ms"], first["after_ms"])
    amount = f"{signed(first['contribution_ms'])} a run{f' ({relation})' if relation else ''}"
    said = comparison.causes[comparison.causes["change"] == queries.index[0]]["sentence"]
    why = f": {said.iloc[0]}" if len(said) else ""
    changed = counted(len(queries), "query changed", "queries changed")
    most = short(comparison.name(int(first["category"])), NAME_WIDTH)
    return f"{changed}. Most: {most} {amount}, {percent(first['share'])} of all changes{why}."


def totals_sentence(comparison: Comparison) -> str:
    """Say how many runs and queries were compared, and what a run takes on both sides."""
    before, after = comparison.total_ms
    runs = [facts.runs for facts in (comparison.before, comparison.after)]
    of_queries = comparison.changes[comparison.changes["parent"].to_numpy() < 0]
    kinds = of_queries["kind"].tolist()
    only = [
        f"{kinds.count(str(kind))} only {word}"
        for kind, word in ((ChangeKind.REMOVED, "before"), (ChangeKind.ADDED, "after"))
        if str(kind) in kinds
    ]
    queries = ", ".join([f"{counted(len(comparison.common), 'query', 'queries')} in both", *only])
    return (
        f"{counted(runs[0], 'run')} before, {runs[1]} after · {queries} · total {duration(before)} "
        f"→ {duration(after)} a run ({relative(before, after)})"
    )


def counted(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun: ``1 run``, ``4 runs``."""
    return f"{number} {one if number == 1 else many or f'{one}s'}"


def differences_sentence(comparison: Comparison) -> str:
    """Name settings, hosts and Spark versions that differ, and what is the same."""
    different = comparison.different
    parts = [
        f"{one.key} {setting_words(one.before)} → {setting_words(one.after)}"
        for one in different.settings[:MOST_NAMED]
    ]
    if len(different.settings) > MOST_NAMED:
        parts.append(f"{len(different.settings) - MOST_NAMED} more settings (--json)")
    gone, new = different.hosts
    hosts = [
        f"hosts only {word} {_named(names)}"
        for names, word in ((gone, "before"), (new, "after"))
        if names
    ]
    before, after = comparison.before, comparison.after
    if gone and new and len(gone) == len(before.hosts) and len(new) == len(after.hosts):
        hosts = [f"hosts {_hosts(before)} → {_hosts(after)}, none on both sides"]
    parts += hosts
    same = [] if hosts else ["hosts"]
    if different.versions is None:
        same.append("Spark")
    else:
        parts.append(
            f"Spark {setting_words(different.versions[0])} → {setting_words(different.versions[1])}"
        )
    said = [f"Different: {' · '.join(parts)}"] if parts else []
    return ". ".join([*said, f"The same: {', '.join(same)}"] if same else said)


def _hosts(facts: SideFacts) -> str:
    cores = f" × {facts.host_cores:g} cores" if facts.host_cores else ""
    return f"{len(facts.hosts)}{cores}"


def setting_words(values: Sequence[str]) -> str:
    """Return the values of a setting, shortened; ``not set`` where there is none."""
    return short(" or ".join(values), VALUE_WIDTH) or "not set"


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(short(name) for name in names[:MOST_NAMED]) + more
