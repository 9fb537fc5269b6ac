"""Tries what the main path does not need: load on purpose, sensitivity curves, traces.

The main path imports nothing from here.
"""
