"""`make hosts ARGS='codex goose'` and `make hosts ARGS='--record codex-tui'`: which of pytest's
tests they mean. What is the name of no host is pytest's own.
"""

import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
RECORDINGS = TESTS / "test_recordings.py"


def arguments(words: list[str]) -> list[str]:
    if "--record" in words:
        names = [word for word in words if word != "--record"]
        return [str(RECORDINGS), "-k", " or ".join(names)]
    hosts = {path.stem.removeprefix("test_"): path for path in TESTS.glob("test_*.py")}
    del hosts["recordings"]
    named = [hosts[word] for word in words if word in hosts]
    options = [word for word in words if word not in hosts]
    return [*options, *(str(path) for path in named or sorted(hosts.values()))]


if __name__ == "__main__":
    sys.exit(pytest.main(arguments(sys.argv[1:])))
