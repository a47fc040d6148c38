"""How the traps of `traps` are seen in what was read: a sentence for each place. Pure."""
