"""The command line: one thin function per command.

Imports nothing heavy before it knows which command it is.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    import argparse

EPILOG = """\
An app is named by TARGET:
  https://app.example        a web page that speaks ABP, in a headless Chromium (extra 'browser')
  stdio:COMMAND              a program that speaks ABP on its stdin and stdout
  demo, demo:page            the built-in app, without and with a browser

Try it:
  abp-bridge demo                          see every kind of question, here in this terminal
  abp-bridge serve --app demo              what an MCP host launches
  abp-bridge acp --app demo -- goose acp   what an ACP editor launches in place of its agent
  abp-bridge ask confirm "Go on?"          one question, from a shell or a program

Settings: flags first, then ABP_OUTPUT_DIR, ABP_HEADLESS, ABP_CHROME, ABP_BROWSER_TIMEOUT,
ABP_CALL_TIMEOUT, ABP_QUESTION_TIMEOUT ... (README)
"""

ACP = """\
Stands between an ACP editor (Zed, JetBrains, acpx ...) and its agent. Give the editor this
command where it has the agent's:

  abp-bridge acp --app https://app.example -- claude-agent-acp
  abp-bridge acp --app demo -- goose acp
  abp-bridge acp -- goose acp              no app: only the agent's own questions

- The agent gets the apps' tools. What an app asks while one runs, the editor is asked, not the
  model.
- An editor without forms is asked by buttons, at most four at a time. The agent's own forms too:
  it is told that forms are shown here.
- Everything else passes byte for byte, both ways.

The agent's stderr is ours, and so is its exit code.
"""

ASK = """\
Puts one ABP elicitation to you at this terminal, else on a page in your browser, and prints the
ABP response as JSON. For shells, and for programs in any language.

  abp-bridge ask input "Your name?"
  abp-bridge ask confirm "Deploy now?" | jq -e .data.confirmed && ./deploy   a "no" is an answer
  abp-bridge ask select "Which season?" spring summer autumn
  abp-bridge ask input '{"prompt": "API key?", "sensitive": true}'
  abp-bridge ask resource "A photo, please" 'image/*'
  abp-bridge ask request.json              {"method": "elicitation/confirm", "params": {...}}
  abp-bridge ask confirm '{"message": "Delete it?", "destructive": true}' --on page
  abp-bridge ask input "Name?" --on mock --answers answers.json
  ./program | abp-bridge ask -             many, a JSON message a line, answered on stdout

METHOD is input, preference, confirm, select, resource or sampling; PARAMS is a JSON object, or
the message in words and then the options of a select, the default of a preference or the type of
a resource.

Exit code: 0 when it was answered (a "no" is an answer), 1 when it was declined, cancelled, timed
out or could not be asked (the response says which), 2 when there is no such question.
docs/asking.md says more.
"""

NOBODY_READS = 141  # as others end whom SIGPIPE ends

_APP_OPTIONS = ("apps", "allowed_hosts", "output_dir", "headless", "record")
_HERE_OPTIONS = ("tty", "answers", "roots", "question_timeout")
_ASK_OPTIONS = ("ask_on", "page", "tty", "answers", "questions_api", "ask_model", "roots")


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point. Returns the exit code; errors are one line on stderr that says what
    to do.
    """
    signal.signal(
        signal.SIGINT, signal.SIG_DFL
    )  # until a command takes over, Ctrl-C just ends us, without a traceback
    whole = _mended()
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.run is None:
        parser.print_help()
        return 2
    if not whole and options.run is not _demo:
        _give_up("stdout is closed: there is nowhere to answer to")
    _configure_log(options)
    code = NOBODY_READS
    try:
        code = options.run(options)
        _flush()
    except* BrokenPipeError:  # such as `| head`, which has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except* Exception as problems:
        code = _report_bug(problems)
    return code


def _configure_log(options: argparse.Namespace) -> None:
    from abp_bridge.log import LEVELS, LogFileError, configure

    level = options.log_level or os.environ.get("ABP_LOG_LEVEL", "warning")
    if level not in LEVELS:
        _give_up(f"ABP_LOG_LEVEL={level!r} cannot be used: it must be {', '.join(LEVELS)}")
    try:
        configure(
            level,
            options.log_file or os.environ.get("ABP_LOG_FILE"),
            own_only=options.run is _demo,  # the SDK's tracebacks are not for this screen
        )
    except LogFileError as problem:
        _give_up(problem)


def _report_bug(problem: BaseException) -> int:
    import logging

    from abp_bridge.errors import describe_bug
    from abp_bridge.log import print_message

    while isinstance(problem, BaseExceptionGroup) and len(problem.exceptions) == 1:
        problem = problem.exceptions[0]
    logging.getLogger(__name__).error("this command failed", exc_info=problem)
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


def _mended() -> bool:
    """Whether there is a stdout.

    Each of the three streams is something afterwards: else a file of ours would get its number.
    """
    missing = []
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            missing.append(
                os.open(os.devnull, os.O_RDWR)
            )  # the lowest number that is free: this one
    for fd, name in ((1, "stdout"), (2, "stderr")):
        if fd in missing:
            setattr(sys, name, os.fdopen(fd, "w", closefd=False))
    return 1 not in missing


def entry() -> None:
    """The `abp-bridge` script: ends at once, so that no finaliser can hold up a host that waits for
    us to go.
    """
    code = main()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _parser() -> argparse.ArgumentParser:
    import argparse

    from abp_bridge import VERSION

    parser = argparse.ArgumentParser(
        prog="abp-bridge",
        description=(
            "Carries the questions of web apps that speak ABP (the Agentic Browser Protocol,"
            " agenticbrowserprotocol.io) to the person behind an agent host, and the answers back."
        ),
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"abp-bridge {VERSION}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    parser.set_defaults(run=None)

    serve = commands.add_parser(
        "serve",
        help="the bridge itself, on stdin and stdout, for an MCP host to launch",
        description=(
            "The stdio bridge: an MCP server (2025-06-18, 2025-11-25 and 2026-07-28), or an ACP"
            " agent. Hosts launch it; it is not for typing at."
        ),
    )
    _add_app_options(serve)
    serve.set_defaults(run=_serve)

    acp = commands.add_parser(
        "acp",
        help="an ACP agent with the apps' tools, for an editor to launch in place of the agent",
        usage="abp-bridge acp [OPTION]... -- AGENT [ARGUMENT]...",
        description=ACP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_app_options(acp)
    acp.add_argument(
        "agent", nargs="+", metavar="AGENT", help="the agent's command and arguments, after --"
    )
    acp.set_defaults(run=_acp)

    demo = commands.add_parser(
        "demo",
        help="the built-in app behind a real bridge, with this terminal as its host",
        description=(
            "Spawns 'abp-bridge serve', is its MCP host, and shows what the built-in app asks and"
            " tells."
        ),
    )
    demo.add_argument("--browser", action="store_true", help="the same app as a page in Chromium")
    demo.add_argument(
        "--answers",
        metavar="FILE",
        help="answer from a JSON file instead of asking here: a list, one entry a question",
    )
    demo.add_argument("--json", action="store_true", help="one JSON object a line instead of words")
    demo.set_defaults(run=_demo)

    _add_ask(commands)

    matrix = commands.add_parser(
        "matrix",
        help="what becomes of each shape of question on each surface",
        description="Prints the table that the bridge routes by.",
    )
    matrix.add_argument(
        "--format",
        dest="style",
        choices=("table", "markdown", "json"),
        default="table",
        help="for people, for docs, for programs",
    )
    matrix.add_argument(
        "--host",
        metavar="NAME",
        help="as this host has it, by its profile: zed, acpx, goose-cli, codex-mcp-client ...",
    )
    matrix.add_argument(
        "--fixture",
        metavar="FOLDER",
        nargs="?",
        const="fixtures",
        help="name the fixture that proves each cell (in ./fixtures)",
    )
    matrix.set_defaults(run=_matrix)

    replay = commands.add_parser(
        "replay",
        help="play recorded hosts and apps against a bridge, and compare",
        usage=(
            "abp-bridge replay FIXTURE... [OPTION]...\n       abp-bridge replay --save TRACE"
            " FIXTURE"
        ),
        description=(
            "Plays the host's and the app's side of fixtures against a bridge that it starts, and"
            " compares what that says. A folder stands for the fixtures in it. Exits with 0 when"
            " all pass."
        ),
    )
    replay.add_argument(
        "paths", nargs="+", metavar="FIXTURE", help="a fixture, a trace, or a folder of them"
    )
    replay.add_argument(
        "--bridge",
        metavar="CMD",
        help=(
            "another bridge; it is given the same arguments, unless CMD has {app} where its app"
            " goes"
        ),
    )
    replay.add_argument(
        "--save",
        action="store_true",
        help="make a fixture of a trace of 'serve --record', and play nothing",
    )
    replay.add_argument(
        "--shows", metavar="WORDS", default="", help="with --save: what the fixture shows"
    )
    replay.add_argument(
        "--patience",
        metavar="SECONDS",
        type=_seconds,
        default=10.0,
        help="how long to wait for the bridge's next line (default: 10)",
    )
    replay.add_argument(
        "--jobs",
        metavar="N",
        type=_count,
        default=0,
        help="how many to play at once (default: two for each processor)",
    )
    replay.add_argument(
        "--json", action="store_true", help="one JSON object a line instead of words"
    )
    replay.set_defaults(run=_replay)

    trace = commands.add_parser(
        "trace",
        help="draw a trace or a fixture as a sequence",
        description="Draws who said what to whom.",
    )
    trace.add_argument("path", metavar="FILE", help="a trace of 'serve --record', or a fixture")
    trace.add_argument(
        "--width",
        metavar="COLUMNS",
        type=_count,
        help="how wide to draw (default: as wide as the terminal)",
    )
    trace.add_argument("--full", action="store_true", help="all that is said, however long")
    trace.add_argument(
        "--json", action="store_true", help="one JSON object a line instead of a drawing"
    )
    trace.set_defaults(run=_trace)
    for command in commands.choices.values():
        _add_log_options(command)
    return parser


def _add_log_options(command: argparse.ArgumentParser) -> None:
    from abp_bridge.log import LEVELS

    option = command.add_argument_group("what is logged").add_argument
    option("--log-level", choices=LEVELS, help="what is less is not written (default: warning)")
    option("--log-file", metavar="FILE", help="write the log there too; it never has an answer")


def _add_ask(commands: Any) -> None:
    import argparse

    ask = commands.add_parser(
        "ask",
        help="put one question, or a stream of them, to you here, and print the answer",
        usage=(
            "abp-bridge ask [OPTION]... METHOD [PARAMS]\n       abp-bridge ask [OPTION]... FILE\n  "
            "     COMMAND | abp-bridge ask [OPTION]... -"
        ),
        description=ASK,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    option = ask.add_argument
    option(
        "what",
        metavar="METHOD | FILE | -",
        help="what is asked: a method of ABP, a file with a request, or - for requests on stdin",
    )
    option("more", nargs="*", metavar="PARAMS", help="its params: a JSON object, or words")
    option(
        "--on",
        choices=("terminal", "page", "mock"),
        help="ask there only; else written answers come first, then this terminal, then the page",
    )
    option(
        "--answers",
        metavar="FILE",
        help="answer from a JSON file (docs/asking.md), for tests and CI",
    )
    option(
        "--tty",
        metavar="DEVICE",
        help="the terminal to ask at, if not this one, for example /dev/pts/3",
    )
    option(
        "--timeout",
        dest="question_timeout",
        metavar="SECONDS",
        type=_seconds,
        help="your time for an answer, where the request names none",
    )
    option(
        "--root",
        action="append",
        dest="roots",
        metavar="DIR",
        help="files in here may be read when a request names them, each with your consent",
    )
    option("--as", dest="origin", metavar="NAME", help="who asks, as it is shown")
    ask.set_defaults(run=_ask)


def _add_app_options(command: argparse.ArgumentParser) -> None:
    option = command.add_argument
    option(
        "--app",
        action="append",
        dest="apps",
        metavar="TARGET",
        help="an app to offer; opened when first used. May be repeated",
    )
    option(
        "--allow",
        action="append",
        dest="allowed_hosts",
        metavar="HOST",
        help="a private host on which the model may connect apps. May be repeated",
    )
    option(
        "--output-dir",
        metavar="DIR",
        help=(
            "keep the files of results here, not in a temporary folder that goes when the session"
            " ends"
        ),
    )
    option("--headful", action="store_const", const=False, dest="headless", help="show the browser")
    option(
        "--record",
        metavar="FILE",
        help=(
            "write down what is said on both sides, without secrets; see it with 'abp-bridge trace"
            " FILE'"
        ),
    )
    asking = command.add_argument_group("who is asked, besides the host").add_argument
    asking(
        "--page",
        nargs="?",
        const="link",
        choices=("link", "open"),
        help=(
            "what the host cannot show goes to a page of the bridge's own: 'link' has the host show"
            " its address, 'open' opens your browser"
        ),
    )
    asking(
        "--tty",
        metavar="DEVICE",
        help="ask at this terminal too, for example /dev/pts/3 (type 'tty' there to see its name)",
    )
    asking("--answers", metavar="FILE", help="answer from a JSON file first, for tests and CI")
    asking(
        "--questions-api",
        metavar="PORT",
        type=_port,
        help="programs written for OpenCode's questions may list and answer them here",
    )
    asking(
        "--ask-model",
        action="store_const",
        const=True,
        help="where nothing else can ask, have the model ask its user and pass the answer on",
    )
    asking(
        "--ask-on",
        type=lambda words: tuple(filter(None, words.replace(",", " ").split())),
        metavar="NAMES",
        help=(
            "ask on these only, in this order: mock,host,terminal,questions-api,page,model as far"
            " as they are set up"
        ),
    )
    asking(
        "--root",
        action="append",
        dest="roots",
        metavar="DIR",
        help="files in here may be read by apps, each with your consent. May be repeated",
    )


def _port(words: str) -> int:
    import argparse

    from abp_bridge.settings import read_port

    try:
        return read_port(words)
    except ValueError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None


def _count(words: str) -> int:
    from argparse import ArgumentTypeError

    if not words.isascii() or not words.isdecimal() or not 0 < int(words) <= 10_000:
        raise ArgumentTypeError(f"{words!r} must be a whole number, from 1 to 10000")
    return int(words)


def _seconds(words: str) -> float:
    from argparse import ArgumentTypeError

    try:
        seconds = float(words)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 3600:
        raise ArgumentTypeError(
            f"{words!r} must be a number of seconds, more than 0 and at most 3600"
        )
    return seconds


def _settings(options: argparse.Namespace, *names: str, ignored: Sequence[str] = ()) -> Any:
    from abp_bridge.settings import SettingsError, read_settings

    flags = {
        name: tuple(value) if isinstance(value := getattr(options, name), list) else value
        for name in names
    }
    try:
        settings = read_settings(
            {name: value for name, value in os.environ.items() if name not in ignored}, **flags
        )
    except SettingsError as problem:
        _give_up(problem)
    if settings.answers is not None:
        from abp_bridge.cli.compose import answers
        from abp_bridge.surfaces.answers_file import AnswersError

        try:
            answers(settings.answers)
        except AnswersError as problem:
            _give_up(problem)
    return settings


def _give_up(problem: object) -> NoReturn:
    sys.stderr.write(f"abp-bridge: {problem}\n")
    raise SystemExit(2)


def _serve(options: argparse.Namespace) -> int:
    from abp_bridge.cli.serve import run

    return run(_settings(options, *_APP_OPTIONS, *_ASK_OPTIONS))


def _acp(options: argparse.Namespace) -> int:
    from abp_bridge.cli.proxy import run

    return run(_settings(options, *_APP_OPTIONS, *_ASK_OPTIONS), options.agent)


def _ask(options: argparse.Namespace) -> int:
    from abp_bridge.cli.ask import STREAM, AskOptions, UsageError, read_request, run

    settings = _settings(
        options, *_HERE_OPTIONS, ignored=("ABP_ASK_ON", "ABP_QUESTIONS_API")
    )  # where it asks, --on says
    streams = options.what == STREAM
    try:
        if options.on == "mock" and settings.answers is None:
            raise UsageError("--on mock needs --answers FILE")
        if streams and options.more:
            raise UsageError("'ask -' takes its requests from stdin, and no params")
        request = None if streams else read_request(options.what, options.more)
        return run(
            AskOptions(
                settings, options.on, options.origin or ("a program" if streams else "this command")
            ),
            request,
        )
    except UsageError as problem:
        _give_up(f"{problem}. abp-bridge ask --help shows how")


def _demo(options: argparse.Namespace) -> int:
    from abp_bridge.cli.demo.run import run

    return run(browser=options.browser, answers=options.answers, as_json=options.json)


def _matrix(options: argparse.Namespace) -> int:
    from abp_bridge.cli.matrix import run

    return run(style=options.style, host=options.host, fixtures=options.fixture)


def _replay(options: argparse.Namespace) -> int:
    from abp_bridge.cli.replay import replay, save

    if options.save:
        if len(options.paths) != 2:
            sys.stderr.write(
                "abp-bridge replay: --save needs two names: the trace, and the fixture to make of"
                " it\n"
            )
            return 2
        trace, fixture = options.paths
        return save(trace, fixture, options.shows)
    return replay(
        options.paths,
        bridge=options.bridge,
        as_json=options.json,
        patience=options.patience,
        jobs=options.jobs,
    )


def _trace(options: argparse.Namespace) -> int:
    from abp_bridge.cli.replay import show

    return show(options.path, as_json=options.json, width=options.width, full=options.full)
