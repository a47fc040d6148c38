"""ACP: version 1, and what the draft of version 2 changes."""
