"""What `--help` looks like in narrow terminals, and what the matrix explains."""

from __future__ import annotations

import re

import pytest

from abp_bridge.cli.main import COMMANDS, main, make_parser
from abp_bridge.settings.table import SET_UP_BY


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_fits_a_terminal_and_breaks_no_word_in_a_narrow_one(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = {}
    for columns in (40, 80, 300):
        monkeypatch.setenv("COLUMNS", str(columns))
        with pytest.raises(SystemExit, match=r"^0$"):
            make_parser([command]).parse_args([*filter(None, [command]), "--help"])
        shown[columns] = capsys.readouterr().out
    for columns, widest in ((80, 80), (300, 100)):
        assert [each for each in shown[columns].splitlines() if len(each) > widest] == []
    assert shown[40].split() == shown[80].split() == shown[300].split()


def test_rows_stay_rows_and_points_are_hung(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "62")
    with pytest.raises(SystemExit):
        make_parser(["acp"]).parse_args(["acp", "--help"])
    lines = capsys.readouterr().out.splitlines()
    start = lines.index("- The agent gets the apps' tools. What an app asks while one")
    assert lines[start + 1] == "  runs, the client is asked, not the model."
    assert "  abp-bridge acp -- goose acp  no app: only the agent's own" in lines


def test_a_long_row_ends_where_its_meaning_begins(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        make_parser(["install"]).parse_args(["install", "--help"])
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert "abp-bridge install codex --name db -- npx -y mongodb-mcp-server" in lines


@pytest.mark.parametrize("words", [["matrix"], ["matrix", "--host", "zed"]])
def test_the_matrix_says_what_each_surface_is_that_no_host_has(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 0
    shown = capsys.readouterr().out.partition("\ntext\n")[0]
    for surface, setup in SET_UP_BY.items():
        assert re.search(rf"^  {surface} +{re.escape(setup)}: [a-z]", shown, re.MULTILINE)
