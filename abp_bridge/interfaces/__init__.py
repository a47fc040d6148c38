"""What apps, hosts and surfaces offer the bridge, and what it offers them: protocols and their
value types.
"""
