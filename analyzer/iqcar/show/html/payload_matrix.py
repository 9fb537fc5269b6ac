"""Who hurts whom: what each query lost to each, by resource, the largest told apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from iqcar.base import limits
from iqcar.causes.blame.blame_tables import QUERY
from iqcar.show.html.blame_rows import FOLDED, RESOURCE_OF_REQUEST, RESOURCES, largest, sums_by

if TYPE_CHECKING:
    from iqcar.show.html.blame_rows import BlameRows
    from iqcar.show.html.names import PageNames


def matrix_payload(blame_rows: BlameRows, names: PageNames) -> dict[str, Any]:
    """Sum lost time by source, kind, target and resource.

    Returns
    -------
    dict
        sources and targets: positions of queries, those that took or lost most first (−2 for all
        others together); cells: columns source (position in ``sources``, or −1), kind (code),
        target (position in ``targets``) and lost (one number in ms per resource); left_out: how
        many sources and targets were folded.
    """
    frame = blame_rows.frame
    lost = frame["lost_ms"].to_numpy(np.float64)
    kind = frame["kind"].to_numpy(np.int64)
    by_query = kind == QUERY
    source = np.where(by_query, frame["source"].to_numpy(np.int64), -1)
    target = frame["target"].to_numpy(np.int64)
    resource = RESOURCE_OF_REQUEST[frame["request"].to_numpy(np.int64)]
    taken = np.where(by_query, lost, 0.0)
    sources = largest(source, taken, limits.MOST_IN_MATRIX)
    # Those that lost most to others first; where nobody did, those that lost most.
    targets = largest(target, taken * 1e6 + lost, limits.MOST_IN_MATRIX)
    cells: dict[tuple[int, int, int], list[float]] = {}
    row = _position(source, sources)
    column = _position(target, targets)
    keys, sums, _ = sums_by((row, kind, column, resource), lost)
    for (at, code, towards, of), ms in zip(keys, sums.tolist(), strict=True):
        if ms > 0:
            cell = cells.setdefault((at, code, towards), [0.0] * len(RESOURCES))
            cell[of] = round(ms, 3)
    return {
        "sources": [names.query(int(one)) for one in sources],
        "targets": [names.query(int(one)) for one in targets],
        "cells": {
            "source": [key[0] for key in cells],
            "kind": [key[1] for key in cells],
            "target": [key[2] for key in cells],
            "lost": list(cells.values()),
        },
        "left_out": {
            "sources": len(np.unique(source[source >= 0])) - len(sources),
            "targets": len(np.unique(target)) - len(targets),
        },
    }


def _position(rows: np.ndarray[Any, Any], kept: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Position of each row among those kept; −2 for the others, −1 stays."""
    if len(kept) == 0:
        return np.where(rows >= 0, FOLDED, rows)
    order = np.argsort(kept)
    at = np.minimum(np.searchsorted(kept[order], rows), len(kept) - 1)
    found = kept[order][at] == rows
    return np.where(found, order[at], np.where(rows >= 0, FOLDED, rows))
