"""One member in and out of a configuration file as text, everything else as it was. Pure: text in,
text out, and `FormatError` for what is not understood.
"""
