"""Matches what is measured on both sides, and puts it together."""
