"""Runs queries on a live cluster under chosen load, and fits how much each resource slows them.

Active intervention (Goldszmidt and Isaacs, "More intervention now!", HotOS 2011): instead of
waiting for contention to happen, cause it, within bounds, and measure.

Paper: Intervention | active intervention | exact; within bounds that are given |
  tests/lab/experiment/test_experiment_plan.py
"""
