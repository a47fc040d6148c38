"""What a trace must not hold: secrets, one-time links, sealed states, names of this machine.

Everything passes the `redactor`, which asks the others: the structure of a value (`structure`), the
person's answers (`answers`), what looks like a secret in text (`patterns`), and every known secret
in all its `encodings`. Pure.
"""
