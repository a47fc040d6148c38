"""ACP: between a client and its agent."""
