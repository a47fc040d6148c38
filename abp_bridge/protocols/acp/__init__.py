"""Codecs of ACP, version 1."""
