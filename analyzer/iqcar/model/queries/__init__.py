"""Queries of a run: identity, order of their stages, and critical path."""
