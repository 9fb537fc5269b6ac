"""Tables of one log, from what was collected of it."""
