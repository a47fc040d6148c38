"""ACP clients: this process as their agent, over stdio."""
