"""How much of a large application the page shows; what is beyond is folded, and said so."""

from __future__ import annotations

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
MOST_STAGES = 40
"""Target stages of one query that are told apart: as many bars fit on a screen."""
MOST_HOSTS = 40
"""Hosts that are told apart, those where most was lost: columns of a heatmap one can still read."""
MOST_SOURCE_STAGES = 60
"""Source stages of one query that are told apart."""
MOST_SOURCES = 40
"""Source queries of one query that are told apart."""
MOST_IN_MATRIX = 25
"""Sources and targets in the matrix: cells of 30 pixels on a laptop."""
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
MOST_DOUBTS = 40
"""Doubts listed in full."""
NAME_CHARACTERS = 120
"""Characters of a name in a list: two lines."""
TEXT_CHARACTERS = 600_000
"""Characters of all long query texts together; the last ones are left out beyond it."""
