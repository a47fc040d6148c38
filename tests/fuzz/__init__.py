"""Bytes that coverage finds, fed to the wire and to the codecs; `make fuzz` runs it."""
