"""`make hosts ARGS='codex goose'` and `make hosts ARGS='--record codex-tui'`: which of pytest's
tests they mean. What begins with a dash otherwise is pytest's own.
"""

import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
RECORDINGS = TESTS / "test_recordings.py"


def arguments(words: list[str]) -> list[str]:
    options = [word for word in words if word.startswith("-")]
    names = [word for word in words if word not in options]
    if "--record" in options:
        options.remove("--record")
        return [*options, str(RECORDINGS), "-k", " or ".join(names)]
    checks = [TESTS / f"test_{name}.py" for name in names] or TESTS.glob("test_*.py")
    return [*options, *(str(path) for path in sorted(checks) if path != RECORDINGS)]


if __name__ == "__main__":
    sys.exit(pytest.main(arguments(sys.argv[1:])))
