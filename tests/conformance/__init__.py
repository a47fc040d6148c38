"""The official MCP conformance suite against the real stdio bridge: `python -m tests.conformance`,
or `make conformance`.

The suite speaks HTTP and wants fixture tools by name. `app` is an ABP app that offers them, `names`
says what they are called on either side, `pipe` is one bridge process, `adapter` its HTTP face,
`suite` the suite as npm brings it. What is known to fail is in `expected.yml`, each with its
reason. Not collected by pytest: the suite comes from the npm registry, and needs Node 22.
"""

import sys
from pathlib import Path

sys.path.insert(
    0, str(Path(__file__).parents[1])
)  # as pytest has it: `npm` is shared with the hosts
