"""Apps: the asking sides, one module or package for each kind, and `targets`, which makes the app
for a TARGET.
"""
