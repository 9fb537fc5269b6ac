"""What each task did and needed: queries, waits, demand, and what the record cannot tell."""
