"""What a trace must not hold: secrets, one-time links, sealed states, names of this machine.

Everything passes the `redactor`, one walk over a message. It asks where secrets stand
(`structure`), which answers are some (`answers`) and what looks like one in text (`patterns`), and
replaces those that are `known`, however they are written. Pure.
"""
