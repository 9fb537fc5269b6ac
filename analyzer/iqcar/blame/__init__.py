"""Blame: which query's tasks made which other query's tasks wait (iQCAR section 4, appendix A)."""
