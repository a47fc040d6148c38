"""Add and remove one member of a configuration file as text, with the rest unchanged. Pure."""
