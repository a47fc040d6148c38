"""Pages in a Chromium of their own: found, opened, and spoken to through a script that is
injected.
"""

import os

import abp_bridge.jsonrpc.subprocess  # noqa: F401  # notes the environment first, for other children

# With these, Playwright and its driver write all that goes to a page, answers among it, on our
# stderr. It looks for them as soon as it is imported.
for _name in ("DEBUG", "DEBUGP"):
    os.environ.pop(_name, None)
