"""Why it was slow, and who was in the way: blame, iQC-Graph, stragglers, topics, wasted work."""
