"""What a shell completes of this command line."""

from __future__ import annotations

import subprocess

import pytest
from support.harness import PATIENCE

from abp_bridge.cli.completion import SHELLS
from abp_bridge.cli.main import make_parser

COMPLETED = {
    "abp-bridge se": "serve",
    "abp-bridge serve --pa": "--park-timeout --page --page-port",
    "abp-bridge serve --page o": "off open",
    "abp-bridge completion z": "zsh",
}
PRESS_TAB = """
eval "$1"
press_tab() {
  COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
  $(complete -p abp-bridge | sed 's/.*-F \\([^ ]*\\).*/\\1/')
  echo "${COMPREPLY[*]}"
}
while read -r line; do press_tab $line; done
"""


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    options = make_parser(["completion"]).parse_args(["completion", shell])
    assert options.run(options) == 0
    return capsys.readouterr().out


@pytest.mark.process
def test_bash_completes_commands_options_and_their_words(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pressed = subprocess.run(
        ["bash", "-c", PRESS_TAB, "bash", script("bash", capsys)],
        input="".join(f"{line}\n" for line in COMPLETED),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert pressed.stdout.splitlines() == list(COMPLETED.values())


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_gets_every_command(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = script(shell, capsys)
    assert "park-timeout" in words
    assert "matrix" in words
