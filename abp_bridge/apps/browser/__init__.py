"""Pages in Chromium: found, opened, and controlled by an injected script."""

import os

# Imported first: it notes the environment for other children.
import abp_bridge.jsonrpc.subprocess  # noqa: F401

# With these, Playwright and its driver write all that goes to a page, answers among it, on our
# stderr. It looks for them as soon as it is imported.
for _name in ("DEBUG", "DEBUGP"):
    os.environ.pop(_name, None)
