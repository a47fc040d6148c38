"""Translate `make hosts ARGS="codex goose"` and its flags into arguments of pytest."""

import sys
from itertools import pairwise
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
BY_NAME = {"--record": TESTS / "test_recordings.py", "--busy": TESTS / "test_busy.py"}


def arguments(words: list[str]) -> list[str]:
    for flag, path in BY_NAME.items():
        if flag in words:
            return [str(path), "-k", " or ".join(word for word in words if word != flag)]
    hosts = {
        path.stem.removeprefix("test_"): path
        for path in TESTS.glob("test_*.py")
        if path not in BY_NAME.values()
    }
    named, options = list[Path](), list[str]()
    for before, word in pairwise(["", *words]):
        if word in hosts and before != "-k":  # whose value is pytest's
            named.append(hosts[word])
        else:
            options.append(word)
    return [*options, *(str(path) for path in named or sorted(hosts.values()))]


if __name__ == "__main__":
    sys.exit(pytest.main(arguments(sys.argv[1:])))
