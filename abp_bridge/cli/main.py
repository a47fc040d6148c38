"""The command line: find the command, and do what is common to all.

Each command, such as `ask`, is a module with `HELP`, `DESCRIPTION` and `run_ask`. It may have a
`USAGE`, `add_ask_options`, `MISSING` (the error for missing words), `describe_more` (for extra
ones), and `BEHIND` (the option for words after `--`). Only that module is imported.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

from abp_bridge.cli.options import add_setting_options, configure_log
from abp_bridge.cli.runtime import WRONG_USAGE, UsageExit, discard_stdout, give_up
from abp_bridge.core.words import nearest
from abp_bridge.settings import TABLE, describe_removed

if TYPE_CHECKING:
    import argparse

logger = logging.getLogger(__name__)

# command -> its module in this package
COMMANDS = {
    "serve": "serve",
    "mcp": "mcp",
    "acp": "acp",
    "demo": "demo",
    "try": "try_app",
    "check": "check_app",
    "ask": "ask",
    "install": "install",
    "uninstall": "uninstall",
    "doctor": "doctor",
    "inbox": "inbox",
    "login": "login",
    "agents": "agents",
    "matrix": "matrix",
    "replay": "replay",
    "trace": "trace",
    "completion": "completion",
}

GENERAL = ("-h", "--help", "-V", "--version")  # options without a command
LAUNCHED = ("serve", "mcp", "acp")  # by hosts, whose people see no stderr
# They poll pipes, own process groups and lock files, as Windows does not.
POSIX_ONLY = (
    "serve",
    "mcp",
    "acp",
    "demo",
    "try",
    "check",
    "ask",
    "inbox",
    "login",
    "agents",
    "replay",
)

DESCRIPTION = """\
What works for you through an agent has to ask you: an MCP server before it deletes, a web page
that speaks ABP (agenticbrowserprotocol.io) or WebMCP, an ACP agent. This brings each question to
you, in your host, on a page or at a terminal, and your answer back.
"""

EPILOG = """\
An app is named by TARGET:
  https://app.example        a web page that speaks ABP or WebMCP, in a headless Chromium (extra
                             'browser')
  ./my-extension             the folder of a Chrome extension that speaks ABP
  wss://app.example/abp      an app that speaks ABP over a WebSocket; ws:// on this machine
  stdio:COMMAND              a program that speaks ABP on its stdin and stdout
  mcp:COMMAND                an MCP server; mcp+https://... is one over Streamable HTTP
  acp:COMMAND                an ACP agent, which is prompted: acp:codex-acp, "acp:goose acp"
  demo, demo:page            the built-in app, without and with a browser

Try it, here in this terminal:
  abp-bridge demo                        every kind of question
  abp-bridge try http://localhost:3000   an app of yours, called and asking
  abp-bridge ask confirm "Go on?"        one question, from a shell or a program
  abp-bridge login https://app.example   sign in once, for an app behind a login

Have a host launch it:
  abp-bridge install codex               written into its configuration; --list has all hosts
  abp-bridge doctor codex                whether that works, and what to do where it does not
  abp-bridge serve --app http://localhost:3000  your app, for an MCP host
  abp-bridge mcp -- npx mongodb-mcp-server      in place of an MCP server
  abp-bridge acp --app demo -- goose acp        in place of an ACP agent

Settings are given as flags or as ABP_OUTPUT_DIR, ABP_HEADLESS, ABP_CHROME, ABP_CALL_TIMEOUT ...
in the environment: 'abp-bridge COMMAND --help' has the flags, docs/settings.md both.
"""

NOBODY_READS = 141  # as others end whom SIGPIPE ends


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, restore the signals, and return the exit code."""
    with _kept_signals():
        return _main(arguments)


@contextlib.contextmanager
def _kept_signals() -> Iterator[None]:
    """Afterwards SIGINT does what it did, and is blocked or not as it was."""
    handler = signal.getsignal(signal.SIGINT)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ()) if os.name == "posix" else set()
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if os.name == "posix":
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, the last of its process (`main`)."""
    # Until a command takes over, Ctrl-C just ends us, without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    whole = _open_streams()
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _run_command(words, whole)
    except UsageExit as end:
        if whole and os.name == "posix" and _is_launched(words):
            from abp_bridge.cli.refusal import refuse_host

            refuse_host(f"abp-bridge: {end.reason}")
        return WRONG_USAGE


def _run_command(words: list[str], whole: bool) -> int:
    for word in words[: words.index("--") if "--" in words else None]:
        if removed := describe_removed(word.partition("=")[0]):
            give_up(removed)
    if wrong := _describe_no_command(words):
        give_up(f"{_ended(wrong)} 'abp-bridge --help' says more")
    parser = make_parser(words)
    options, unknown = parser.parse_known_args(words)
    if unknown:
        wrong = _describe_unknown(unknown, options.parser.format_help(), options.describe_more)
        usages = map(str.strip, (options.parser.usage or "").splitlines())
        usage = next((line for line in usages if " -- " in line), "")
        if usage and "--" not in words:
            wrong += f"; if it is the other command's own, put -- before that command: {usage}"
        options.parser.error(wrong)
    if options.run is None:
        parser.print_help()
        return 2
    if os.name != "posix" and words[0] in POSIX_ONLY:
        give_up(f"'abp-bridge {words[0]}' runs on Linux and macOS only; on Windows, inside WSL.")
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


def _is_launched(words: Sequence[str]) -> bool:
    """Return whether a host may have launched this, not a user at a terminal."""
    word = words[0] if words else ""
    meant = word if word in COMMANDS else _nearest(word, COMMANDS)
    return meant in (*LAUNCHED, "") and not os.isatty(0)


def _describe_no_command(words: Sequence[str]) -> str:
    """What is wrong with `words` that do not begin with a command and want one; else empty."""
    if not words:
        return "" if os.isatty(0) else "the command is missing; hosts launch 'abp-bridge serve'"
    word = words[0].partition("=")[0]
    if word in COMMANDS or word in GENERAL:
        return ""
    if not word.startswith("-"):
        near = _nearest(word, COMMANDS)
        meant = f"is 'abp-bridge {near}' meant?" if near else f"there are {', '.join(COMMANDS)}"
        return f"{word!r} is no command: {meant}"
    if any(word == row.flag for row in TABLE.values()):
        return f"a command comes before {word}: is 'abp-bridge serve {word} ...' meant?"
    return _describe_unknown([word], " ".join(GENERAL))


def _nearest(word: str, known: Iterable[str]) -> str:
    bare = {each.lstrip("-"): each for each in known}
    return bare.get(nearest(word.lower().lstrip("-"), bare), "")


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith("?") else f"{sentence}."


def entry() -> None:
    """Run the `abp-bridge` script; exit immediately, as finalizers may delay a waiting host."""
    code = _main()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def make_parser(words: Sequence[str] = ()) -> argparse.ArgumentParser:
    """Return the parser of the command in `words`; of all commands if there is none."""
    from abp_bridge import VERSION
    from abp_bridge.cli.help import HelpFormatter

    parser = _make_parser_class()(
        prog="abp-bridge",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=HelpFormatter,
    )
    parser.add_argument("-V", "--version", action="version", version=f"abp-bridge {VERSION}")
    parser.set_defaults(run=None, without_stdout=False, describe_more=_describe_nothing)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    meant = words[:1] if words and words[0] in (*COMMANDS, "-V", "--version") else COMMANDS
    for name, module in COMMANDS.items():
        if name in meant:
            _add_command(commands.add_parser, name, import_module(f"abp_bridge.cli.{module}"))
    parser.set_defaults(parser=parser)
    return parser


def _make_parser_class() -> type[argparse.ArgumentParser]:
    """That of our own parser and of each command's: argparse is imported where it is needed."""
    import argparse

    class Parser(argparse.ArgumentParser):
        """Of this and each command. What is wrong is one line; a part of a name is no option."""

        def __init__(self, **given: Any) -> None:
            super().__init__(**given, allow_abbrev=False)

        def parse_known_args(  # type: ignore[override]
            self, args: Sequence[str] | None = None, namespace: Any = None
        ) -> tuple[argparse.Namespace, list[str]]:
            """Keep what follows `--` for `BEHIND`: argparse leaves the first of two lists empty."""
            words, behind = list(args or ()), self.get_default("behind")
            place = words.index("--") if behind and "--" in words else len(words)
            found, unknown = super().parse_known_args(words[:place], namespace)
            if behind:
                setattr(found, behind, words[place + 1 :])
            return found, unknown

        def error(self, message: str) -> NoReturn:
            if message.startswith("the following arguments are required"):
                message = self.get_default("missing") or message
            message += _choice_meant(message)
            give_up(f"{_ended(message)} '{self.prog} --help' says more")

    return Parser


def _add_command(
    add_parser: Callable[..., argparse.ArgumentParser], name: str, module: ModuleType
) -> None:
    from abp_bridge.cli.help import HelpFormatter

    parser = add_parser(
        name,
        help=module.HELP,
        usage=getattr(module, "USAGE", None),
        description=module.DESCRIPTION,
        formatter_class=HelpFormatter,
    )
    if add_options := getattr(module, f"add_{name}_options", None):
        add_options(parser)
    add_setting_options(parser, name)
    parser.set_defaults(
        run=getattr(module, f"run_{name}"),
        parser=parser,
        missing=getattr(module, "MISSING", ""),
        behind=getattr(module, "BEHIND", ""),
        describe_more=getattr(module, "describe_more", _describe_nothing),
    )


def _describe_nothing(words: Sequence[str]) -> str:
    return ""


def _describe_unknown(
    unknown: Sequence[str],
    help: str,
    describe_more: Callable[[Sequence[str]], str] = _describe_nothing,
) -> str:
    """Return the error for unknown words, with the closest option in `help`."""
    options = [word.partition("=")[0] for word in unknown if word.startswith("-")]
    if not options:
        from abp_bridge.core.redact.command import show_unknown

        meant = describe_more(unknown)
        return f"{show_unknown(unknown[0])!r} is one word too many{f': {meant}' if meant else ''}"
    known = re.findall(r"(?<!\S)--[a-z-]+", help)
    if "--env" in known and (variable := _variable_of(options[0])):
        return f"a setting of ours is given by --env here: --env {variable}=VALUE"
    near = _nearest(options[0], known) if len(options[0]) > 2 else ""
    if not near:
        start = f"--{options[0].lstrip('-')}"
        near = " or ".join(dict.fromkeys(each for each in known if each.startswith(start)))
    return f"{options[0]} is no option{f' (is {near} meant?)' if near else ''}"


def _variable_of(flag: str) -> str:
    return next((row.variable for row in TABLE.values() if row.flag == flag), "")


def _choice_meant(message: str) -> str:
    found = re.search(r"invalid choice: '(.*)' \(choose from (.*)\)", message)
    near = _nearest(found[1], re.findall(r"[\w-]+", found[2])) if found else ""
    return near and f": is {near} meant?"


def _report_bug(problem: BaseException) -> int:
    from abp_bridge.errors import describe_bug, only_cause
    from abp_bridge.log import print_message

    logger.error("this command failed", exc_info=only_cause(problem))
    print_message(describe_bug(problem))
    return 1


def _flush() -> None:
    """Flush stdout; raise BrokenPipeError if its reader is gone, but ignore a lost terminal."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except (OSError, ValueError):
        return


def _open_streams() -> bool:
    """Open missing standard streams, so no file gets their number; return whether stdout was."""
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
