"""Texts from logs: matched in linear time, and redacted."""
