"""The built-in app: every kind of question, notification and progress, from `script.json`."""
