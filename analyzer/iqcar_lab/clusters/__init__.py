"""Simulated clusters whose truth is known, and event logs written by hand: what proves iqcar."""
