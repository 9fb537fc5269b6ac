"""Lists reasons to doubt a diagnosis: lost events, estimated waits, incomplete recordings."""
