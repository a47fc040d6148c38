"""The bridge under real hosts: `python -m tests.real_hosts` (or `make hosts`) installs them,
gives them a scripted model, and plays the person.

Not collected by pytest: the hosts are several hundred megabytes and come from the npm registry.
"""

import sys
from pathlib import Path

sys.path.insert(
    0, str(Path(__file__).parents[1])
)  # as pytest has it: the referee is `harness.Wire`
