"""What makes the blame doubtful, in sentences for the person who reads the diagnosis."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iqcar.capacity import ENOUGH_TASKS
from iqcar.kinds import REQUESTS, Request
from iqcar.ratp import BYTES_REQUESTS, data_processed

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

    from iqcar.capacity import Capacity
    from iqcar.ratp import TaskColumns

MUCH_OVER = 3.0
"""Over-attribution from which a demand's shares say who, but hardly how much."""
WORTH_SAYING = 0.05
"""Share of task time, or of a wait, below which a doubt is not worth a sentence."""
ONE_MACHINE_NAMES = ("localhost", "127.0.0.1", "::1")
"""Host names that every machine gives itself."""


def doubts_of(
    columns: TaskColumns, capacity: dict[Request, Capacity], demands: pd.DataFrame
) -> tuple[str, ...]:
    """List what a reader should know before trusting the blame.

    Parameters
    ----------
    columns : TaskColumns
    capacity : dict
        From :func:`iqcar.blame.capacities`.
    demands : DataFrame of :data:`iqcar.blame.DEMANDS`

    Returns
    -------
    tuple of str
    """
    if len(columns.stage) == 0:
        return ()
    return (
        *_missing_waits(columns),
        *_waits_without_data(columns),
        *_thin_capacity(columns, capacity),
        *_over_attribution(demands),
        *_unknown_slots(columns),
        *_one_machine(columns),
    )


def _missing_waits(columns: TaskColumns) -> Iterator[str]:
    time = columns.span.sum()
    shares: dict[int, list[str]] = {}
    for request in REQUESTS:
        missing = columns.span[np.isnan(columns.wait(request))].sum()
        if time > 0 and missing >= WORTH_SAYING * time:
            shares.setdefault(round(100 * missing / time), []).append(str(request))
    for percent, names in sorted(shares.items(), reverse=True):
        yield f"Waits for {', '.join(names)} are unknown for {percent} % of task time."


def _waits_without_data(columns: TaskColumns) -> Iterator[str]:
    for request in BYTES_REQUESTS:
        wait = np.nan_to_num(columns.wait(request))
        blind = wait[~(data_processed(columns, request) > 0)].sum()
        if blind > WORTH_SAYING * wait.sum():
            yield (
                f"{100 * blind / wait.sum():.0f} % of {request} has no data volume: how much of "
                "it was lost is unknown, and it is counted as waited, not as lost."
            )


def _thin_capacity(columns: TaskColumns, capacity: dict[Request, Capacity]) -> Iterator[str]:
    for request, known in capacity.items():
        if 0 < known.tasks < ENOUGH_TASKS:
            yield (
                f"The capacity for {request} rests on {known.tasks} task(s): slowdown and blame "
                "for it are guesses."
            )
        used = np.unique(columns.host[(columns.wait(request) > 0) & (columns.host >= 0)])
        borrowed = int(known.borrowed[used].sum())
        if known.tasks >= ENOUGH_TASKS and 0 < borrowed < len(used):
            yield (
                f"{borrowed} of {len(used)} hosts had too few tasks to tell their capacity for "
                f"{request}; that of all hosts together was taken."
            )


def _over_attribution(demands: pd.DataFrame) -> Iterator[str]:
    lost = demands["lost_ms"].to_numpy()
    requests = demands["request"].to_numpy()
    much = demands["over_attribution"].to_numpy() > MUCH_OVER
    for code, request in enumerate(REQUESTS):
        mine = requests == code
        if lost[mine & much].sum() > WORTH_SAYING * max(lost[mine].sum(), 1.0):
            yield (
                f"For {100 * lost[mine & much].sum() / lost[mine].sum():.0f} % of the time lost "
                f"to {request}, sources used more than {MUCH_OVER:.0f} times what explains it: "
                "their order is better known than their shares."
            )


def _unknown_slots(columns: TaskColumns) -> Iterator[str]:
    if columns.slots.unknown_cores:
        yield (
            f"The cores of {columns.slots.unknown_cores} executor(s) are not recorded: the most "
            "slots they ever filled at once was taken."
        )


def _one_machine(columns: TaskColumns) -> Iterator[str]:
    names = columns.tables.hosts["host"].to_numpy()
    for row, name in enumerate(names):
        if name in ONE_MACHINE_NAMES:
            apps = len(np.unique(columns.app[columns.host == row]))
            if apps > 1:
                yield (
                    f"{apps} applications ran on a host called {name}; they are taken to share "
                    "one machine."
                )
