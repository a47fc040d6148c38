"""What commands say to programs, on any stdout: JSON, of which nothing is lost or hidden."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.harness import PATIENCE, environment
from support.paths import FIXTURES

from abp_bridge.cli.main import main

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
    *lines, last = text.split("\n")
    assert last == ""
    assert all(line.isprintable() for line in lines), "something in it cannot be seen"
    return [json.loads(line) for line in lines]


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


UNSEEN = "é\x9b31m\u202eb\u2066c\u200bd"


def test_json_shows_whatever_hides_in_it(tmp_path: Path) -> None:
    answers, fixture = tmp_path / "answers.json", tmp_path / "fixture.jsonl"
    answers.write_text(json.dumps([UNSEEN]))
    head, rest = (FIXTURES / "acp/error.jsonl").read_text().split("\n", 1)
    fixture.write_text(f"{json.dumps({**json.loads(head), 'shows': UNSEEN})}\n{rest}")
    for words in (
        ("ask", "--on", "mock", "--answers", str(answers), "input", "Which?"),
        ("trace", str(fixture), "--json"),
        ("replay", str(fixture), "--json"),
    ):
        assert repr(UNSEEN)[1:-1] in str(said(*words, encoding="utf-8"))


@pytest.mark.parametrize("more", [(), ("--json",)], ids=["words", "json"])
def test_a_stream_that_keeps_letters_has_them_all(more: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "fixture.jsonl"
    head, rest = (FIXTURES / "acp/error.jsonl").read_text().split("\n", 1)
    path.write_text(f"{json.dumps({**json.loads(head), 'shows': WORDS})}\n{rest}")
    with contextlib.redirect_stdout(io.StringIO()) as kept:
        assert main(["trace", str(path), *more]) == 0
    assert WORDS in kept.getvalue()
