"""Traces of sessions, fixtures made of traces, and their replay against any bridge."""
