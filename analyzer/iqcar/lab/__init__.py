"""Experiments: load on purpose, sensitivity curves, traces of other systems.

The main path imports nothing from here.
"""
