"""The event loop that replays a recorded run, and what it needs of the record."""
