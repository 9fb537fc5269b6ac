"""Rules for the scheduler: proposed from the graph, written as JSON, read back."""
