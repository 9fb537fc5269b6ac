"""Task events: from lines to columns of the tasks table."""
