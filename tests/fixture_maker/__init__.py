"""Makes the fixtures that prove the matrix: `make fixtures`.

Each is a real conversation, recorded by the bridge itself and reduced. What is asked and answered
stands in `questions.json`, who the hosts are in `hosts.json`, what is told, how questions end
otherwise and what agents behind the bridge do in `conversations.json`; `cases` makes fixtures of
these, `host` plays a host, `person` whoever answers.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # as pytest has it
