"""Stragglers and topics of traces of other systems: one row per task, columns named by the user."""
