"""In front of a server of somebody else: everything passes, but for what needs a person."""
