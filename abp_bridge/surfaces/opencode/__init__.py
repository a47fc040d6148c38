"""The questions API, compatible with OpenCode."""
