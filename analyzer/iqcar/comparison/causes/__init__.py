"""Finds why it changed."""
