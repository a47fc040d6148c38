"""The built-in app: every kind of question, notification and progress, from one script
(`script.json`), with and without a browser.
"""
