"""The Model Context Protocol: pure codecs between its shapes and `core`, for the revisions
2025-06-18, 2025-11-25 and 2026-07-28.

Nothing is loaded with the package: a server that is only looked at needs `modern` and no more.
"""
