"""iQC-Graph: seven levels from target queries to the source queries of their lost time."""

from iqcar.causes.graph.export import GraphExport
from iqcar.causes.graph.iqc_graph import IQCGraph, build_graph, weighing

__all__ = ["GraphExport", "IQCGraph", "build_graph", "weighing"]
