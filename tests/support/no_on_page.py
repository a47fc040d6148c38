"""A browser as a program: it opens the address that it is given, and says no to what is asked
there. For `BROWSER`.
"""

from __future__ import annotations

import sys

from support.visitor import Browser

browser = Browser()
browser.open(sys.argv[1])
browser.send(action="no")
