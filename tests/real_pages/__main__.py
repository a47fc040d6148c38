"""`make webmcp DEMOS=DIR`, `make webmcp ARGS=peers`, or both."""

import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent


def arguments(words: list[str]) -> list[str]:
    peers = "peers" in words
    if not peers and "--demos" not in words:
        sys.exit("name a folder that has demos, DEMOS=DIR, or ARGS=peers (tests/README.md)")
    rest = [word for word in words if word != "peers"]
    named = [TESTS / "test_peers.py"] if peers else []
    if "--demos" in rest:
        named.append(TESTS / "test_demos.py")
    return [*map(str, named), *rest]


if __name__ == "__main__":
    sys.exit(pytest.main(arguments(sys.argv[1:])))
