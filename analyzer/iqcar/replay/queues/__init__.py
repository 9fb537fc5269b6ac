"""Replays of a shared cluster whose queues hand executors to applications, and plans for them."""
