"""Computes what changed beyond chance, and ranks it."""
