"""Pictures of a diagnosis; notebooks and reports show the same ones.

Every function takes tables, frames or the graph. :func:`timeline` and :func:`lanes` return a
:class:`Timeline`, all others a ``plotly.graph_objects.Figure``; Plotly is imported when the first
one is drawn.
"""

from iqcar.plots.executors import cluster_slots, executors
from iqcar.plots.heatmap import heatmap, heatmap_cells
from iqcar.plots.hosts import hosts
from iqcar.plots.matrix import matrix, matrix_cells
from iqcar.plots.mixtures import mixtures, topic_mixtures
from iqcar.plots.sankey import sankey
from iqcar.plots.straggler_boxes import compare_stragglers, straggler_boxes
from iqcar.plots.theme import template
from iqcar.plots.timeline import Timeline, lanes, timeline
from iqcar.plots.waits import stage_waits, waits

__all__ = [
    "Timeline",
    "cluster_slots",
    "compare_stragglers",
    "executors",
    "heatmap",
    "heatmap_cells",
    "hosts",
    "lanes",
    "matrix",
    "matrix_cells",
    "mixtures",
    "sankey",
    "stage_waits",
    "straggler_boxes",
    "template",
    "timeline",
    "topic_mixtures",
    "waits",
]
