"""What commands say to programs, on a stdout that is not UTF-8: JSON, of which nothing is lost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.harness import PATIENCE, environment
from support.paths import FIXTURES

Json = Any

WORDS = "Grün 😀?"


def said(*words: str, encoding: str = "ascii") -> list[Json]:
    """The lines of JSON that a command prints."""
    ended = subprocess.run(
        [sys.executable, "-m", "abp_bridge", *words],
        env=environment(PYTHONIOENCODING=encoding),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=PATIENCE,
    )
    assert ended.stderr == b""
    text = ended.stdout.decode(encoding)
    assert text.isascii() == (encoding == "ascii")
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
@pytest.mark.parametrize("command", ["trace", "replay"])
def test_a_fixture_says_the_same_in_any_encoding(
    command: str, encoding: str, tmp_path: Path
) -> None:
    head, rest = (FIXTURES / "acp/error.jsonl").read_text().split("\n", 1)
    path = tmp_path / "fixture.jsonl"
    path.write_text(f"{json.dumps({**json.loads(head), 'shows': WORDS})}\n{rest}")
    assert WORDS in str(said(command, str(path), "--json", encoding=encoding))


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_an_answer_is_the_same_in_any_encoding(tmp_path: Path, encoding: str) -> None:
    answers = tmp_path / "answers.json"
    answers.write_text(json.dumps([WORDS]))
    [answer] = said(
        *("ask", "--on", "mock", "--answers", str(answers), "input", "Which?"), encoding=encoding
    )
    assert WORDS in str(answer)
