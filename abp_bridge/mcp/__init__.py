"""MCP: hosts, servers behind us, and the proxy between both."""
