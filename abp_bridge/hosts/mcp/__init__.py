"""MCP hosts: this process as their server, over stdio."""
