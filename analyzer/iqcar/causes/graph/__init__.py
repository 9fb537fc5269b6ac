"""iQC-Graph: seven levels from target queries to the source queries of their lost time."""
