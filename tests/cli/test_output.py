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
    env = environment(PYTHONIOENCODING=encoding)
    ended = subprocess.run(
        [sys.executable, "-m", "abp_bridge", *words],
        env=env,
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


def retitled(folder: Path, words: str) -> str:
    """A fixture that shows this."""
    path = folder / "fixture.jsonl"
    head, rest = (FIXTURES / "acp/error.jsonl").read_text().split("\n", 1)
    path.write_text(f"{json.dumps({**json.loads(head), 'shows': words})}\n{rest}")
    return str(path)


@pytest.mark.process
@pytest.mark.parametrize("command", ["trace", "replay"])
def test_json_of_a_fixture_is_ascii_in_an_ascii_stream(command: str, tmp_path: Path) -> None:
    assert WORDS in str(said(command, retitled(tmp_path, WORDS), "--json"))


@pytest.mark.process
@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_answer_is_the_same_in_any_encoding(tmp_path: Path, encoding: str) -> None:
    answers = tmp_path / "answers.json"
    answers.write_text(json.dumps([WORDS]))
    asked = ("ask", "--on", "mock", "--answers", str(answers), "input", "Which?")
    [answer] = said(*asked, encoding=encoding)
    assert WORDS in str(answer)


UNSEEN = "é\x9b31m\u202eb\u2066c\u200bd"


@pytest.mark.process
def test_json_escapes_hidden_characters(tmp_path: Path) -> None:
    answers, fixture = tmp_path / "answers.json", retitled(tmp_path, UNSEEN)
    answers.write_text(json.dumps([UNSEEN]))
    for words in (
        ("ask", "--on", "mock", "--answers", str(answers), "input", "Which?"),
        ("trace", fixture, "--json"),
        ("replay", fixture, "--json"),
    ):
        assert repr(UNSEEN)[1:-1] in str(said(*words, encoding="utf-8"))


@pytest.mark.parametrize("more", [(), ("--json",)], ids=["words", "json"])
def test_trace_in_a_text_stream_keeps_all_letters(more: tuple[str, ...], tmp_path: Path) -> None:
    with contextlib.redirect_stdout(io.StringIO()) as kept:
        assert main(["trace", retitled(tmp_path, WORDS), *more]) == 0
    assert WORDS in kept.getvalue()
