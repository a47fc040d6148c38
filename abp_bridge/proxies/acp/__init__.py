"""ACP: between an editor and its agent."""
