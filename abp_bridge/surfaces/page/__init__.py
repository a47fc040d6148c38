"""The question page: the user answers in a browser on this machine."""
