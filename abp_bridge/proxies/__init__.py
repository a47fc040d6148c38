"""In front of an agent of somebody else: everything passes, but for what needs a person."""
