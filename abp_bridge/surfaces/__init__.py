"""The surfaces that a person set up beside the host: a terminal, a page, the questions API, a file
of answers.
"""
