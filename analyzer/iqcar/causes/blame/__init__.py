"""Blame of every target query's waits on source queries (iQCAR section 4, appendix A)."""
