"""Follows a running application: its log as it grows, and the blame of each window of time."""
