"""Queues of cluster managers: what files declare, and edits of such files."""
