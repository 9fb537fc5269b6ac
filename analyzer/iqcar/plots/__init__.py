"""Pictures of a diagnosis as Plotly figures; notebooks and reports show the same ones.

Every function takes tables, frames or the graph, and returns a ``plotly.graph_objects.Figure``;
Plotly is imported when the first one is drawn.
"""

from iqcar.plots.heatmap import heatmap, heatmap_cells
from iqcar.plots.matrix import matrix, matrix_cells
from iqcar.plots.sankey import sankey
from iqcar.plots.theme import template
from iqcar.plots.waits import stage_waits, waits

__all__ = [
    "heatmap",
    "heatmap_cells",
    "matrix",
    "matrix_cells",
    "sankey",
    "stage_waits",
    "template",
    "waits",
]
