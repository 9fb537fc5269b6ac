"""Which queries ran, how their stages depend on each other, and their critical paths."""
