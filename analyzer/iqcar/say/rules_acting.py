"""Lists which rules acted from when to when, and which files of rules were not accepted."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from iqcar.base.units import duration, printable, short
from iqcar.tables import Tables

ACCEPTED, PLACEMENT, POOL = "accepted", "placement", "pool"
NAME_WIDTH = 60
"""Characters shown of what a query is recognised by."""


@dataclass(frozen=True)
class ActingRule:
    """One setting of a pool, or one placement of queries, while it acted.

    Attributes
    ----------
    app : int
        Row of the application.
    rule : str
        Ids of the rules; empty if the file names none.
    kind : str
        ``pool`` or ``placement``.
    name : str
        The pool, or what the query is recognised by.
    value : str
        How the pool was, or the pool that the query went into.
    from_ms, until_ms : float
        Since 1970; ``until_ms`` is infinite where the log does not tell of an end.
    """

    app: int
    rule: str
    kind: str
    name: str
    value: str
    from_ms: float
    until_ms: float

    @property
    def sentence(self) -> str:
        """What it did, printable."""
        name = printable(short(self.name, NAME_WIDTH))
        if self.kind == POOL:
            return f"pool {name}: {printable(self.value)}"
        return f"{name} goes into pool {printable(self.value)}"


def acting_rules(tables: Tables) -> list[ActingRule]:
    """Return what the plugin's rules did and when, by application, then by start."""
    begun: dict[tuple[int, str, str], tuple[str, str, float]] = {}
    found: list[ActingRule] = []
    for row in tables.rule_changes.to_dict("records"):
        if row["kind"] not in (POOL, PLACEMENT):
            continue
        app, kind, name, time = row["app"], row["kind"], row["name"], row["time_ms"]
        key = (app, kind, name)
        if key in begun:
            of, value, since = begun.pop(key)
            found.append(
                ActingRule(
                    app=app,
                    rule=of,
                    kind=kind,
                    name=name,
                    value=value,
                    from_ms=since,
                    until_ms=time,
                )
            )
        if row["after"]:
            begun[key] = (row["rule"], row["after"], time)
    found += [
        ActingRule(
            app=app, rule=rule, kind=kind, name=name, value=value, from_ms=since, until_ms=inf
        )
        for (app, kind, name), (rule, value, since) in begun.items()
    ]
    return sorted(found, key=lambda one: (one.app, one.from_ms, one.kind, one.name))


def not_accepted(tables: Tables) -> list[tuple[int, float, str]]:
    """Return application, time in ms and a sentence for each file of rules that changed nothing."""
    return [
        (
            row["app"],
            row["time_ms"],
            f"rules file {row['outcome']}, the rules stayed as they were: "
            f"{printable(row['reason'])}",
        )
        for row in tables.rule_changes.to_dict("records")
        if row["outcome"] != ACCEPTED
    ]


def since_start(tables: Tables, app: int, time_ms: float) -> str:
    """Say how long after the application's start something was: ``+41.2 s``; ``end`` if never."""
    if time_ms == inf:
        return "end"
    start = float(tables.applications["start_ms"].iloc[app])
    return f"+{duration(max(0.0, time_ms - start))}"
