"""iQC-Graph: seven levels from target queries to the source queries of their lost time."""

from iqcar.graph.export import GraphExport
from iqcar.graph.iqc_graph import IQCGraph, build_graph, weighing

__all__ = ["GraphExport", "IQCGraph", "build_graph", "weighing"]
