"""`abp-bridge completion`: print a shell's completion script, made by shtab."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

SHELLS = ("bash", "zsh", "fish", "tcsh")

MISSING = "name your shell: abp-bridge completion bash"
HELP = "a script by which your shell completes commands and options"
DESCRIPTION = """\
Prints a script for your shell, which then completes commands, options and their words by Tab:

  eval "$(abp-bridge completion bash)"    in ~/.bashrc
  eval "$(abp-bridge completion zsh)"     in ~/.zshrc, after compinit
  abp-bridge completion fish | source     in ~/.config/fish/config.fish
"""


def add_completion_options(parser: argparse.ArgumentParser) -> None:
    """Add the shell."""
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))


def run_completion(options: argparse.Namespace) -> int:
    """Print the script. Returns the exit code."""
    import shtab

    from abp_bridge.cli.main import make_parser

    parser = make_parser()
    _complete_paths(parser, {"FILE": shtab.FILE, "DIR": shtab.DIRECTORY})
    sys.stdout.write(shtab.complete(parser, options.shell))
    return 0


def _complete_paths(parser: argparse.ArgumentParser, kinds: Mapping[str, object]) -> None:
    """What follows an option is a path where its `metavar` is one of `kinds`."""
    for action in parser._actions:
        if isinstance(action.metavar, str) and action.metavar in kinds:
            action.complete = kinds[action.metavar]  # type: ignore[attr-defined]
        if isinstance(action.choices, dict):  # the commands
            for command in action.choices.values():
                _complete_paths(command, kinds)
