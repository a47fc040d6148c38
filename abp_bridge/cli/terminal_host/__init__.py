"""This terminal as the MCP host of a bridge that is spawned for it."""
