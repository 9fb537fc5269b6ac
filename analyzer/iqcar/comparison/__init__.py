"""Compares two sets of runs: which queries and stages changed, by how much, and why."""
