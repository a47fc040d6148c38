"""A proxy in front of another MCP server: it passes everything and asks the user its questions."""
