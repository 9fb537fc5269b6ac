"""JSON results: one module per command."""
