"""Clients of the official SDKs, with workarounds for their limits."""
