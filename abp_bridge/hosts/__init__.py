"""The answering side: the programs that launched us. Importing this package loads nothing.

A host is answered before the rest of the bridge is there.
"""
