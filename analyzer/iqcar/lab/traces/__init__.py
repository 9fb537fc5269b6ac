"""Finds stragglers and topics of traces of other systems: a row per task."""
