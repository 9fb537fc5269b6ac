"""Where people and agents ask: command line, server, Model Context Protocol, demo."""
