"""Hosts' configuration files: add and remove our entry, and leave every other byte unchanged."""
