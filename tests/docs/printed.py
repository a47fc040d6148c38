"""Tables of README and docs that are printed from the code, between two comments that name them:
`python -m tests.docs.printed` prints them there anew, `--check` only says whether they differ.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from abp_bridge.bridge import result_store
from abp_bridge.core.ways import WAYS
from abp_bridge.hosts.profiles import PROFILES
from abp_bridge.settings import markdown_table


def ways_table() -> Iterable[str]:
    """Every way to have a person asked: an option of the bridge's, or a setting of a host's."""
    yield "| where | what you do | what happens |"
    yield "|---|---|---|"
    for way in WAYS.values():
        yield f"| any host | `{way.give}` | {way.then} |"
    for row in PROFILES.values():
        for words in row.ways:
            give, _, then = words.partition(": ")
            yield f"| {row.name} | {give} | {then} |"


ROOT = Path(__file__).parents[2]
# (file, name of the table): what prints its lines
TABLES: dict[tuple[str, str], Callable[[], Iterable[str]]] = {
    ("README.md", "settings"): markdown_table,
    ("docs/results.md", "results"): result_store.markdown_table,
    ("docs/asking.md", "ways"): ways_table,
}


def printed(text: str, name: str, lines: Iterable[str]) -> str:
    """`text` with these lines between the comments of the table `name`."""
    begin, end = f"<!-- printed: {name} -->", "<!-- /printed -->"
    pattern = re.compile(rf"{begin}\n.*?{end}", re.DOTALL)
    assert pattern.search(text), f"there is no {begin}"
    table = "\n".join((begin, *lines, end))
    return pattern.sub(lambda found: table, text, count=1)


def main(arguments: list[str]) -> int:
    """Print all tables, or check them. Returns the exit code."""
    stale = 0
    for (file, name), table in TABLES.items():
        before = (ROOT / file).read_text(encoding="utf-8")
        after = printed(before, name, table())
        if "--check" in arguments and after != before:
            stale = 1
            print(f"{file}: the table of {name} is not what the code says: make docs")
        elif after != before:
            (ROOT / file).write_text(after, encoding="utf-8")
    return stale


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
