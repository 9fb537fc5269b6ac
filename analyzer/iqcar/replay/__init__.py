"""Replays of a recorded run under other shares, rules or clusters."""
