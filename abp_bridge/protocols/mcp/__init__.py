"""The Model Context Protocol, revisions 2025-06-18, 2025-11-25 and 2026-07-28.

Imports nothing: listing a server needs `modern` alone.
"""
