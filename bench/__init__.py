"""What the bridge costs, always measured in one run against what it could be compared with: `python
-m bench`.

`subjects` says what is measured and what it is measured against, `client` is a host that owns the
clock, `start`, `traffic`, `endurance`, `acp` and `mcp` are the figures, `table` turns samples into
verdicts. Nothing here is imported by the bridge, and no test depends on a time.
"""
