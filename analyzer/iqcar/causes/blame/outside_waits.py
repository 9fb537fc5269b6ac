"""Computes the part of each task's wait for the processor that executors can be blamed for."""

from __future__ import annotations

import numpy as np

from iqcar.causes.blame.task_intervals import Pieces
from iqcar.enums import Request, SourceUsage
from iqcar.model.demand.outside_load import outside_share
from iqcar.tables.arrays import Floats, share_of


def share_of_executors(pieces: Pieces, request: Request, source_usage: SourceUsage) -> Floats:
    """Return the part of each task's slowdown that is not the doing of programs outside executors.

    Threads that wait for a processor wait for whoever uses one, in proportion to the use: what
    programs outside the executors used of it, by the samples of the host at that moment, stays
    unattributed (eq. 4). Each piece of a task counts by the wait in it. Shape (n_tasks,). From 0 to
    1; 1 for every other request, where no host was sampled, and for ``PAPER``.
    """
    tables = pieces.columns.tables
    paper = source_usage is SourceUsage.PAPER
    if request is not Request.RUN_QUEUE or paper or len(tables.samples) == 0:
        return np.ones(len(pieces.columns.span))
    outside = outside_share(tables, pieces.host, pieces.launch, pieces.finish, pieces.compute())
    weight = pieces.span * pieces.emphasis(request)
    return 1.0 - share_of(pieces.total(weight * outside), pieces.total(weight))
