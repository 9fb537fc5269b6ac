"""Results as people and programs read them: text on a terminal, JSON, and one HTML page."""
