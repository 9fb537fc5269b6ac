"""Compute capacities of hosts, and their load by processes outside of Spark."""
