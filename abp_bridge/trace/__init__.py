"""Traces: what a bridge said and heard, written down without secrets, and drawn."""
