"""Answers agents over the Model Context Protocol: read-only tools about folders of event logs."""
