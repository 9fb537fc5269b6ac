"""Pictures of a diagnosis that need no program of the page; notebooks and reports show the same.

Every function takes tables, frames or the graph. :func:`timeline` and :func:`lanes` return a
:class:`Timeline`, all others a ``plotly.graph_objects.Figure``; Plotly is imported when the first
one is drawn.
"""

from iqcar.show.pictures.hosts import cluster_slots, executors, hosts
from iqcar.show.pictures.straggler_boxes import (
    compare_stragglers,
    mixtures,
    straggler_boxes,
    topic_mixtures,
)
from iqcar.show.pictures.theme import template
from iqcar.show.pictures.timeline import Timeline, lanes, timeline

__all__ = [
    "Timeline",
    "cluster_slots",
    "compare_stragglers",
    "executors",
    "hosts",
    "lanes",
    "mixtures",
    "straggler_boxes",
    "template",
    "timeline",
    "topic_mixtures",
]
