"""Replays of a recorded run under other shares, rules or clusters."""

from iqcar.replay.loop.run import replay as replay
