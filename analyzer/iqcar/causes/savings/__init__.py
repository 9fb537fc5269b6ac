"""What each cause added to the time of queries, and what a remedy would save."""
