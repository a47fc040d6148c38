"""Bytes to messages and back: JSON-RPC without I/O, and what drives it over pipes and processes."""
