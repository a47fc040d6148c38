"""The questions API, in the form of OpenCode: programs answer here in place of a host."""
