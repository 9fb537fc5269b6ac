"""Compiled search of what tasks report in their accumulables, which are most of a log's bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

from iqcar.eventlog.tasks.task_lines import RECORD, SCAN

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SCAN, _RECORD = np.frombuffer(SCAN, np.uint8), np.frombuffer(RECORD, np.uint8)
_UPDATE = np.frombuffer(b'","Update":', np.uint8)
_SCAN_PAIR, _RECORD_PAIR = SCAN.index(b"sc"), RECORD.index(b"qc")
"""Where each text has a pair of letters that is rare, and looked for first."""
_PIECE = 64
"""Bytes looked at together, in a loop that the compiler turns into vector instructions."""


def search(text: bytes, places: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Search the accumulables of tasks.

    Parameters
    ----------
    text : bytes
        Lines of task ends.
    places : (tasks, 2) array
        Where the accumulables of each task start and end.

    Returns
    -------
    (tasks,) array
        Sum of the updates of all accumulators called scan time, in the unit of the log; NaN where
        there is none.
    (tasks,) array
        Where :data:`~iqcar.eventlog.tasks.task_lines.RECORD`, the start of the plugin's record, is
        first;
        −1 where there is none.
    """
    sums, records = np.full(len(places), np.nan), np.full(len(places), -1, np.int64)
    _search(np.frombuffer(text, np.uint8), places, sums, records)
    return sums, records


@njit(cache=True, nogil=True)
def _search(buffer: Any, places: Any, sums: Any, records: Any) -> None:
    for row in range(len(places)):
        at, end = places[row, 0], places[row, 1]
        while at < end:
            piece = buffer[at : at + _PIECE + 1]
            found = len(piece) <= _PIECE
            if not found:
                for offset in range(_PIECE):
                    first = piece[offset]
                    found |= (piece[offset + 1] == 99) & ((first == 113) | (first == 115))
            if found:
                for pair in range(at, min(at + _PIECE, end)):
                    if buffer[pair + 1] != 99:
                        continue
                    if records[row] < 0 and _is_at(buffer, pair - _RECORD_PAIR, end, _RECORD):
                        records[row] = pair - _RECORD_PAIR
                    elif _is_at(buffer, pair - _SCAN_PAIR, end, _SCAN):
                        update = _update(buffer, pair - _SCAN_PAIR + len(_SCAN), end)
                        if update >= 0:
                            sums[row] = update if np.isnan(sums[row]) else sums[row] + update
            at += _PIECE


@njit(cache=True, nogil=True)
def _is_at(buffer: Any, at: int, end: int, text: Any) -> bool:
    if at + len(text) > end:
        return False
    for offset in range(len(text)):  # noqa: SIM110 (numba has no generators)
        if buffer[at + offset] != text[offset]:
            return False
    return True


@njit(cache=True, nogil=True)
def _update(buffer: Any, at: int, end: int) -> float:
    """Return the update of the accumulable whose name goes on at a place; −1 if it has none."""
    while at < end and buffer[at] != 34:
        at += 1
    if not _is_at(buffer, at, end, _UPDATE):
        return -1.0
    at += len(_UPDATE)
    if buffer[at] == 34:
        at += 1
    number, first = 0.0, at
    while at < end and 48 <= buffer[at] <= 57:
        number = number * 10.0 + (buffer[at] - 48.0)
        at += 1
    good = at > first and (buffer[at] == 34 or buffer[at] == 44 or buffer[at] == 125)
    return number if good else -1.0
