"""The answering side: the programs that launched us, or that stand for the person. `contract` is what all of them share with the bridge.

Importing this package loads nothing: a host's front answers before the rest of the bridge is there.
"""
