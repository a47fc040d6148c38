"""Ask the user at a terminal."""
