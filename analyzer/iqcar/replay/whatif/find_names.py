"""Finds the applications and pools that a question names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from iqcar.errors import UsageError, did_you_mean
from iqcar.replay.loop.scheduling import is_fair
from iqcar.replay.whatif.scenario import Scenario
from iqcar.tables import texts

MOST_NAMED = 5
"""Names that a message lists."""
T = TypeVar("T")


def list_names(names: list[str], most: int = MOST_NAMED) -> str:
    """Say some names, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def find_application(scenario: Scenario, wanted: str, option: str) -> int:
    """Position among the workloads of the application with this id, name, or part of either.

    Raises UsageError if there is none, there are several, or it cannot be replayed.
    """
    applications = scenario.tables.applications
    ids, names = texts(applications, "application_id"), texts(applications, "name")
    part = wanted.casefold()
    parts = [part in f"{i}\n{name}".casefold() for i, name in zip(ids, names, strict=True)]
    for matches in ([i == wanted for i in ids], [name == wanted for name in names], parts):
        rows = [row for row, one in enumerate(matches) if one and wanted]
        if len(rows) > 1:
            raise UsageError(
                f"{wanted!r} is {len(rows)} applications", option,
                f"give the id: {list_names([ids[row] for row in rows])}",
            )  # fmt: skip
        if rows:
            found = [workload.app for workload in scenario.workloads]
            if rows[0] not in found:
                raise UsageError(f"{wanted!r} ran no tasks in slots that the log tells", option)
            return found.index(rows[0])
    known = list(dict.fromkeys([*names, *ids]))
    otherwise = f"the run had {list_names(ids)}"
    raise UsageError(
        f"no application is called {wanted!r}", option, did_you_mean(wanted, known, otherwise)
    )


def schedules_fair(scenario: Scenario, app: int) -> bool:
    """Whether an application, by position among the workloads, is FAIR, modes as chosen."""
    chosen = scenario.pools.set_fair(app)
    return is_fair(scenario.tables, scenario.workloads[app].app) if chosen is None else chosen


def of_applications(scenario: Scenario, values: Mapping[str, T], option: str) -> dict[int, T]:
    """Return the values of some applications, by position among the workloads.

    Raises UsageError as :func:`find_application`, or if two names are of one application.
    """
    found: dict[int, T] = {}
    for name, value in values.items():
        at = find_application(scenario, name, option)
        if found.setdefault(at, value) != value:
            raise UsageError(f"{name!r} is given twice, by another name", option, "give it once")
    return found


def check_pools(scenario: Scenario, wanted: Iterable[str], option: str) -> None:
    """Check that a FAIR application has each of these pools, modes as chosen.

    Raises UsageError if none has it.
    """
    pools = [
        {*order.pools, *ran} for order, ran in zip(scenario.orders, scenario.ran_in, strict=True)
    ]
    for pool in wanted:
        _check_pool(scenario, pools, pool, option)


def _check_pool(scenario: Scenario, pools: list[set[str]], wanted: str, option: str) -> None:
    known = sorted(set().union(*pools))
    having = [app for app, names in enumerate(pools) if wanted in names]
    if having and not any(schedules_fair(scenario, app) for app in having):
        raise UsageError(f"{wanted!r} is of FIFO, which has no pools", option, "add --mode FAIR")
    if not having:
        otherwise = f"the run had {list_names(known)}"
        raise UsageError(
            f"no pool is called {wanted!r}", option, did_you_mean(wanted, known, otherwise)
        )
