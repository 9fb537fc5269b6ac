"""Measures one side: its recurring queries, their stages, and every run of them."""
