"""Real MCP servers behind `abp-bridge mcp`, from npm and PyPI: `make servers`."""
