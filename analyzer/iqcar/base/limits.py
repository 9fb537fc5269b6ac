"""How many rows of a long list a reader is shown, and the one rule by which the rest is folded."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

# Lists on a terminal, in a notebook and in a page.
MOST_BLAMED = 8
"""Queries blamed for one query's loss that are told apart: rows of a table that is read whole, and
parts of a bar whose colours can be told apart. Causes that are no query are always told apart."""
MOST_IN_MATRIX = 20
"""Sources and targets in a matrix: cells of 40 pixels on a laptop. A target names no more sources
(:data:`iqcar.causes.blame.blame_sources.MOST_SOURCES`)."""
MOST_NODES = 8
"""Nodes in a column of a Sankey diagram: their labels fit one above another on a laptop."""
MOST_STAGES = 40
"""Stages of one query that are told apart: as many bars fit on a screen."""
MOST_HOSTS = 40
"""Hosts that are told apart, those where most was lost: columns of a heatmap one can still read."""
MOST_WITH_TEXT = 24
"""Columns of a heatmap or matrix up to which a cell has room for a number."""
MOST_CAUSES = 4
"""Causes of stragglers named in one line; the rest is counted."""
MOST_BLAMED_FOR_CAUSE = 3
"""Whom one cause of one straggler is put down to, named in one line."""
MOST_WASTED = 10
"""Queries named that ended later for wasted work, with what helps."""
MOST_ACTED = 40
"""Rules listed that acted in the recorded run; a loop that changes its mind makes more."""
MOST_DOUBTS = 40
"""Doubts listed in full."""

# Shares that are worth a word.
LEAST_DOUBT = 0.01
"""Share of all task time from which a doubt is mentioned; below it no shown figure changes."""
LEAST_MISSING = 0.005
"""Share of task time from which an unknown wait is mentioned: less is shown as 0 %."""

# A page alone: what beyond it would be too large to open.
MOST_EXPLORED = 150
"""Queries that can be explored, those that lost most first: a list of more is not read."""
MOST_FINDINGS = 20
"""Queries with a sentence in the verdict; all others can be explored."""
MOST_ROWS = 60_000
"""Rows of blame in the whole page, about 35 bytes each: 2 MB of the page."""
FIRST = 10
"""Queries that get more rows than the rest: the worst hit are what the page is opened for."""
MOST_ROWS_OF_QUERY = 2_500
"""Rows of blame of one query; a browser filters that many in under a millisecond."""
LEAST_ROWS_OF_QUERY = 150
"""Rows that every query gets, however many there are: enough for its largest stages."""
MOST_SOURCE_STAGES = 60
"""Source stages of one query that are told apart."""
MOST_SOURCES = 40
"""Source queries of one query that are told apart where it is explored."""
MOST_STRAGGLERS = 50
"""Stragglers listed with their causes, the most delayed first."""
MOST_GROUPS = 25
"""Rows of a table of stages, queries or hosts with stragglers."""
MOST_TOPIC_STAGES = 25
"""Stages whose mixture of topics is shown."""
MOST_BOXES = 8
"""Stages whose stragglers are compared with the other tasks in box plots."""
MOST_HOST_ROWS = 100
"""Rows in the table of hosts."""
MOST_INPUTS = 500
"""Event logs in the table of inputs; those that were not read whole come first."""
MOST_DRAWN_CHANGES = 20
"""Changed queries of a comparison that are drawn one by one."""
MOST_CHANGE_ROWS = 200
"""Rows in the table of changes of queries and stages."""
MOST_PREDICTED = 20
"""Queries of one what-if answer in a table, those that change most."""
MOST_PREDICTED_DRAWN = 12
"""The same in its picture: a page holds a picture per answer."""
MOST_STEPS = 16
"""Steps of a waterfall that are told apart."""
MOST_RUN_DOTS = 300
"""Runs of one side that are drawn as dots; of more, as many at even ranks."""
MOST_SETTINGS = 200
"""Settings that differ, in a table."""
MOST_BROWSED = 100
"""Queries and stages with their variation, those that took longest first."""
MOST_UNCHANGED = 100
"""Queries listed that are the same, and queries of which nothing can be told."""
NAME_CHARACTERS = 120
"""Characters of a name in a list: two lines."""
TEXT_CHARACTERS = 600_000
"""Characters of all long query texts together; the last ones are left out beyond it."""


def fold(
    amounts: Sequence[float] | NDArray[np.float64], most: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Choose what a list of at most so many rows shows, and what its last row sums.

    amounts: ndarray of shape (n,); size of each entry.
    most: rows at most, the one that sums the others included; at least 2.

    Returns (shape (k,) and (n − k,)) positions, the largest amount first, equal amounts in order.
    Up to ``most`` entries are all kept; of more, ``most`` − 1 are, because the last row is for the
    rest.
    """
    order = np.argsort(-np.asarray(amounts, np.float64), kind="stable").astype(np.int64)
    room = max(most, 2)
    kept = len(order) if len(order) <= room else room - 1
    return order[:kept], order[kept:]
