"""Recordings: traces of what a bridge said and heard, fixtures made of them, and their replay against any bridge."""
