"""The command line: which command is meant, and what holds for all of them. Each command is a
module with `HELP`, `DESCRIPTION` and `run`, with a `USAGE` and `add_options` where it has its own;
only the one that is meant is imported.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

from abp_bridge.cli.runtime import add_setting_options, configure_log, discard_stdout, give_up

if TYPE_CHECKING:
    import argparse

logger = logging.getLogger(__name__)

# command -> its module in this package
COMMANDS = {
    "serve": "serve",
    "mcp": "mcp",
    "acp": "acp",
    "demo": "demo.run",
    "ask": "ask.run",
    "agents": "agents",
    "matrix": "matrix",
    "replay": "replay",
    "trace": "trace",
}

DESCRIPTION = """\
Carries the questions of web apps that speak ABP (the Agentic Browser Protocol,
agenticbrowserprotocol.io) to the person behind an agent host, and the answers back.
"""

EPILOG = """\
An app is named by TARGET:
  https://app.example        a web page that speaks ABP, in a headless Chromium (extra 'browser')
  wss://app.example/abp      an app that speaks ABP over a WebSocket; ws:// on this machine
  stdio:COMMAND              a program that speaks ABP on its stdin and stdout
  mcp:COMMAND                an MCP server; mcp+https://... is one over Streamable HTTP
  acp:COMMAND                an ACP agent, which is prompted: acp:codex-acp, "acp:goose acp"
  demo, demo:page            the built-in app, without and with a browser

Try it:
  abp-bridge demo                          see every kind of question, here in this terminal
  abp-bridge serve --app demo              what an MCP host launches
  abp-bridge mcp -- npx mongodb-mcp-server what a host launches in place of an MCP server
  abp-bridge acp --app demo -- goose acp   what an ACP client launches in place of its agent
  abp-bridge ask confirm "Go on?"          one question, from a shell or a program

Settings: flags first, then ABP_OUTPUT_DIR, ABP_HEADLESS, ABP_CHROME, ABP_BROWSER_TIMEOUT,
ABP_CALL_TIMEOUT, ABP_QUESTION_TIMEOUT ... (README)
"""

NOBODY_READS = 141  # as others end whom SIGPIPE ends


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command. Errors are one line on stderr that says what to do.

    Returns:
        The exit code.
    """
    # Until a command takes over, Ctrl-C just ends us, without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    whole = _mend_streams()
    words = list(sys.argv[1:] if arguments is None else arguments)
    parser = make_parser(words)
    options, unknown = parser.parse_known_args(words)
    if unknown:
        wrong = _describe_unknown(unknown, options.parser.format_help())
        usage = options.parser.usage or ""
        if " -- " in usage and "--" not in words:
            wrong += f"; if it is the other command's own, put -- before that command: {usage}"
        options.parser.error(wrong)
    if options.run is None:
        parser.print_help()
        return 2
    if not whole and not options.without_stdout:
        give_up("stdout is closed: there is nowhere to answer to")
    configure_log(options)
    code = NOBODY_READS
    try:
        code = options.run(options)
        _flush()
    except* BrokenPipeError:  # such as `| head`, which has seen enough
        discard_stdout()
    except* Exception as problems:
        code = _report_bug(problems)
    return code


def entry() -> None:
    """The `abp-bridge` script: ends at once, so that no finaliser can hold up a host that waits for
    us to go.
    """
    code = main()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def make_parser(words: Sequence[str] = ()) -> argparse.ArgumentParser:
    """The parser of the command that `words` begin with; of all, where they begin with none, and of
    none for the version.
    """
    import argparse

    from abp_bridge import VERSION

    class Parser(argparse.ArgumentParser):
        """Of this and each command. What is wrong is one line; a part of a name is no option."""

        def __init__(self, **given: Any) -> None:
            super().__init__(**given, allow_abbrev=False)

        def error(self, message: str) -> NoReturn:
            give_up(f"{message}. '{self.prog} --help' says more")

    parser = Parser(
        prog="abp-bridge",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"abp-bridge {VERSION}")
    parser.set_defaults(run=None, without_stdout=False)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    meant = words[:1] if words and (words[0] in COMMANDS or words[0] == "--version") else COMMANDS
    for name, module in COMMANDS.items():
        if name in meant:
            _add_command(commands.add_parser, name, import_module(f"abp_bridge.cli.{module}"))
    parser.set_defaults(parser=parser)
    return parser


def _add_command(
    add_parser: Callable[..., argparse.ArgumentParser], name: str, module: ModuleType
) -> None:
    import argparse

    raw = "\n" in module.DESCRIPTION  # its lines are its own
    parser = add_parser(
        name,
        help=module.HELP,
        usage=getattr(module, "USAGE", None),
        description=module.DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter if raw else argparse.HelpFormatter,
    )
    if hasattr(module, "add_options"):
        module.add_options(parser)
    add_setting_options(parser, name)
    parser.set_defaults(run=module.run, parser=parser)


def _describe_unknown(unknown: Sequence[str], help: str) -> str:
    """What is wrong with words that no option takes, and which of the `help` may be meant."""
    from difflib import get_close_matches

    options = [word.partition("=")[0] for word in unknown if word.startswith("-")]
    if not options:
        return f"{unknown[0]!r} is one word too many"
    known = re.findall(r"(?<!\S)--[a-z-]+", help)
    near = [each for each in known if each.startswith(options[0])]
    near = get_close_matches(options[0], known, 1) or near
    return f"{options[0]} is no option{f' (is {near[0]} meant?)' if near else ''}"


def _report_bug(problem: BaseException) -> int:
    from abp_bridge.errors import describe_bug
    from abp_bridge.log import print_message

    while isinstance(problem, BaseExceptionGroup) and len(problem.exceptions) == 1:
        problem = problem.exceptions[0]
    logger.error("this command failed", exc_info=problem)
    print_message(describe_bug(problem))
    return 1


def _flush() -> None:
    """Raises BrokenPipeError when nobody reads any more; a terminal that has gone is no error of
    ours.
    """
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except (OSError, ValueError):
        return


def _mend_streams() -> bool:
    """Whether there is a stdout.

    Each of the three streams is something afterwards: else a file of ours would get its number.
    """
    missing = []
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            missing.append(os.open(os.devnull, os.O_RDWR))  # the lowest number that is free: fd
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        if fd in missing:
            setattr(sys, name, os.fdopen(fd, "w" if fd else "r", closefd=False))
    return 1 not in missing
