"""Whole sessions on a clock of their own: an app, a host and a person, with faults by seed."""
