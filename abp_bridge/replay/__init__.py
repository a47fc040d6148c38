"""Conformance: fixtures made of traces, and played against any bridge. The product never
needs it.
"""
