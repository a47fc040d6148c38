"""Pages in a Chromium of their own: found, opened, and spoken to through a script that is
injected.
"""
