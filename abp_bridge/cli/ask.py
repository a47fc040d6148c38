"""`abp-bridge ask`: put ABP questions to the user at this terminal, a page or an answers file.

`read_request` reads the command line, `User` resolves it on this machine's surfaces, and
`QuestionStream` serves `ask -`: ABP on a pipe in either binding.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import TaskGroup

from abp_bridge.apps.abp import MAX_LINE, Binding
from abp_bridge.apps.elicitation import handle_elicitation
from abp_bridge.cli.compose import make_router, terminal
from abp_bridge.cli.event_log import log_event
from abp_bridge.cli.options import load_settings
from abp_bridge.cli.runtime import discard_stdout, give_up, print_json, run_until_signal
from abp_bridge.core.answer import Answer
from abp_bridge.core.json_value import JsonValue, parse_json
from abp_bridge.core.ledger import Notice, Progress, describe_notice
from abp_bridge.core.matrix import SurfaceVariant
from abp_bridge.core.outcome import SAID_NO, Outcome
from abp_bridge.core.question import FieldType, Kind, Question
from abp_bridge.core.sanitize import label
from abp_bridge.core.surface import WAYS, Advice, Options, Surface, Way
from abp_bridge.core.words import MISSPELT, nearest
from abp_bridge.errors import AbpBridgeError, RemoteProtocolError
from abp_bridge.jsonrpc.connection import ByteReader, JsonRpcConnection
from abp_bridge.jsonrpc.protocol import (
    METHOD_NOT_FOUND,
    InvalidMessage,
    JsonRpcProtocol,
    Notification,
    Request,
    UnmatchedResponse,
)
from abp_bridge.log import print_message
from abp_bridge.protocols import abp
from abp_bridge.protocols.abp.questions import find_misspelt, known_members
from abp_bridge.session.context import NO_CONTEXT, AskContext, SessionEvent
from abp_bridge.session.elicitor import Elicitor
from abp_bridge.session.files import FileAccess
from abp_bridge.session.surface import PageLink, SurfaceResponse, SurfaceUnsupportedError
from abp_bridge.settings import Settings
from abp_bridge.surfaces.inbox.register import Register
from abp_bridge.surfaces.page.surface import LazyPageServer
from abp_bridge.surfaces.terminal.device import CONTROLLING, controlling

if TYPE_CHECKING:
    import argparse

    from abp_bridge.jsonrpc.streams import StreamWriter

logger = logging.getLogger(__name__)

HELP = "put one question, or a stream of them, to you here, and print the answer"
USAGE = """\
abp-bridge ask [OPTION]... METHOD [PARAMS]
       abp-bridge ask [OPTION]... FILE
       COMMAND | abp-bridge ask [OPTION]... -"""
DESCRIPTION = """\
Puts one ABP elicitation to you at this terminal, else on a page in your browser, and prints the
ABP response as JSON. For shells, and for programs in any language.

  abp-bridge ask input "Your name?"
  abp-bridge ask --exit-code confirm "Deploy now?" && ./deploy
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

Exit code:
  0    it was answered; without --exit-code a "no" is an answer
  1    declined, cancelled, timed out or nobody could be asked: the response says which
  2    there is no such question
  3    with --exit-code: it was declined, or a yes or no was answered with no

docs/asking.md says more.
"""

STREAM = "-"
OWN_NAME = "abp-bridge"  # reserved: no requester may use it
MISSING = 'name what is asked: abp-bridge ask confirm "Go on?"'


def add_ask_options(parser: argparse.ArgumentParser) -> None:
    """Add what is asked, where, and by whom."""
    option = parser.add_argument
    option(
        "what",
        metavar="METHOD | FILE | -",
        help="what is asked: a method of ABP, a file with a request, or - for requests on stdin",
    )
    option("more", nargs="*", metavar="PARAMS", help="its params: a JSON object, or words")
    option(
        "--on",
        choices=SURFACES,
        help="ask there only; else written answers come first, then this terminal, then the page",
    )
    option("--as", dest="origin", metavar="NAME", help="who asks, as it is shown")
    option(
        "--exit-code",
        action="store_true",
        help=f"end with {SAID_NO.exit_code} where the answer is no:"
        " ask --exit-code confirm ... && ./deploy",
    )
    option(
        "--show",
        action="store_true",
        help="print secrets too where stdout is a terminal; else they stand there as dots",
    )


def describe_more(words: Sequence[str]) -> str:
    """Why there are words that no option takes: the others stand before an option."""
    return "options stand before METHOD, or after all of its words"


def run_ask(options: argparse.Namespace) -> int:
    """Put one question, or those on stdin. Returns the exit code."""
    settings = load_settings(options, ignored=OF_HOSTS)
    mask = sys.stdout.isatty() and not options.show
    try:
        if options.on == "mock" and settings.answers is None:
            raise UsageError("--on mock needs --answers FILE")
        if (options.origin or "").strip().lower().startswith(OWN_NAME):
            raise UsageError(f"--as {options.origin!r}: {OWN_NAME} cannot be who asks")
        if options.what == STREAM:
            if options.more:
                raise UsageError("'ask -' takes its requests from stdin, and no params")
            if options.exit_code:
                raise UsageError("--exit-code is for one question")
            if os.isatty(0):
                raise UsageError(
                    "'ask -' reads requests that a program writes: COMMAND | abp-bridge ask -"
                )
            resolve = partial(_ask_stream, origin=options.origin or "a program", mask=mask)
        else:
            request = read_request(options.what, options.more)
            origin = options.origin or "this command"
            question = abp.decode_question(request, id="question-1", origin=origin)
            _, timeout = abp.decode_asker(request)
            context = AskContext(timeout=timeout)
            resolve = partial(
                _ask_once,
                question=question,
                context=context,
                mask=mask,
                exit_code=options.exit_code,
            )
    except (UsageError, RemoteProtocolError) as problem:
        give_up(f"{problem}. abp-bridge ask --help shows how")
    return anyio.run(run_until_signal, partial(resolve, choose_surfaces(settings, options.on)))


async def _ask_stream(settings: Settings, tasks: TaskGroup, origin: str, *, mask: bool) -> int:
    """Answer the requests on stdin. Returns the exit code."""
    from abp_bridge.jsonrpc.streams import take_over_stdio

    user = User(settings, origin, tasks, mask=mask)
    return await QuestionStream(user, origin, *take_over_stdio()).serve()


async def _ask_once(
    settings: Settings,
    tasks: TaskGroup,
    question: Question,
    context: AskContext,
    *,
    mask: bool,
    exit_code: bool,
) -> int:
    """Resolve one question, print its response and return the exit code."""
    user = User(settings, question.origin, tasks)
    answer = await user.elicit(question, context)
    response = abp.encode_answer(question, mask_secrets(question, answer) if mask else answer)
    try:
        indent = 2 if sys.stdout.isatty() else None
        print_json(json.dumps(response, ensure_ascii=False, indent=indent) + "\n")
    except OSError:
        discard_stdout()
        return 1
    await user.wait_for_page()
    asked = [(each.type, answer.content.get(each.name)) for each in question.fields]
    row = SAID_NO if asked == [(FieldType.BOOLEAN, False)] else answer.outcome.row
    if exit_code and row.exit_code == SAID_NO.exit_code:
        return row.exit_code
    return 0 if response["success"] else 1


# --- the request ---


# The prefix of a method's name may be left out.
_METHODS = (
    {kind.value.removeprefix("elicitation/"): kind for kind in Kind}
    | {kind.value: kind for kind in Kind}
    | {"sampling": Kind.SAMPLING}
)
# Other words for them.
_SYNONYMS = {
    **dict.fromkeys(("choose", "choice", "choices", "pick", "options"), "select"),
    **dict.fromkeys(("text", "prompt", "ask", "form", "question"), "input"),
    **dict.fromkeys(("yesno", "approve", "consent", "boolean"), "confirm"),
    **dict.fromkeys(("file", "photo", "upload", "document"), "resource"),
    **dict.fromkeys(("model", "sample", "create"), "sampling"),
}
# Members that the user reads: a request needs one of them.
_SAYING = ("prompt", "message", "question", "title", "task", "schema", "uri", "type")
_EXAMPLES = {
    Kind.INPUT: '"Your name?"',
    Kind.PREFERENCE: '"Which colour?" blue',
    Kind.CONFIRM: '"Go on?"',
    Kind.SELECT: '"Which season?" spring autumn',
    Kind.RESOURCE: "\"A photo, please\" 'image/*'",
    Kind.SAMPLING: '"Sum this up"',
}
# The param that the second word after a method is; the first is the message.
_SECOND = {Kind.SELECT: "options", Kind.PREFERENCE: "default", Kind.RESOURCE: "type"}


class UsageError(AbpBridgeError):
    """An invalid command line; the message says what is expected."""


def read_request(what: str, more: Sequence[str]) -> dict[str, Any]:
    """Return the ABP request of METHOD and its params (a JSON object or words), or of a FILE."""
    kind = _METHODS.get(what)
    if kind is None and what.lstrip().startswith("{"):
        raise UsageError(
            f"the method comes first, as in: abp-bridge ask input '{label(what, 200)}'"
        )
    if kind is None and not more:
        return _read_file(what)
    if kind is None:
        raise UsageError(
            f"{what!r} is no method of ABP{_meant(what)}; there are"
            f" {', '.join(each.value for each in Kind)}, or their last word"
        )
    if more and more[0].lstrip().startswith("{"):
        if len(more) > 1:
            raise UsageError("after the params as JSON nothing else is expected")
        params = _parsed(more[0], "the params")
        for problem in find_misspelt(kind, params):
            raise UsageError(problem)
    else:
        params = _worded(kind, more)
    if not any(params.get(name) for name in _SAYING):
        strange = [name for name in params if name not in known_members(kind)]
        raise UsageError(
            f"{what} says nothing to whoever is asked"
            f"{f', and {strange[0]!r} is nothing' if strange else ''}: give the message too,"
            f" abp-bridge ask {what} {_EXAMPLES[kind]}"
        )
    return {"method": kind.value, "params": params}


def _worded(kind: Kind, words: Sequence[str]) -> dict[str, Any]:
    params: dict[str, Any] = (
        {"task" if kind is Kind.SAMPLING else "message": words[0]} if words else {}
    )
    if kind is Kind.SELECT:
        return params | {"options": list(words[1:])}
    if len(words) > 2 or (len(words) == 2 and kind not in _SECOND):
        raise UsageError(
            f"{kind.value} takes fewer words: is the message in quotes? All params can be given as"
            " JSON"
        )
    return params | ({_SECOND[kind]: words[1]} if len(words) == 2 else {})


def _read_file(path: str) -> dict[str, Any]:
    try:
        data = Path(path).read_bytes()
    except (OSError, ValueError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else problem
        known = ", ".join(name for name in _METHODS if "/" not in name)
        raise UsageError(
            f"{path!r} is neither a method ({known}) nor a file that can be read:"
            f" {why}{_meant(path)}"
        ) from None
    request = _parsed(data, path)
    if not isinstance(request.get("method"), str):
        raise UsageError(
            f'{path} holds no request: it must be {{"method": "elicitation/confirm", "params":'
            ' {"message": "Go on?"}}'
        )
    if (kind := _METHODS.get(request["method"])) is None:
        return request
    params = request.get("params")
    for misspelt in find_misspelt(kind, params) if isinstance(params, dict) else ():
        raise UsageError(misspelt)
    return {**request, "method": kind.value}


def _meant(what: str) -> str:
    word = what.lower().rpartition("/")[2]
    near = _SYNONYMS.get(word) or nearest(what, _METHODS, MISSPELT)
    return f" (is {near} meant?)" if near else ""


def _parsed(data: str | bytes, what: str) -> dict[str, Any]:
    try:
        parsed = parse_json(data)
    except ValueError as problem:
        raise UsageError(f"{what}: not JSON: {label(problem)}") from None
    if not isinstance(parsed, dict):
        raise UsageError(f"{what}: must be a JSON object")
    return parsed


# --- the user ---

THANKS = 1.0  # seconds for the browser to load the page that follows the answer
DOTS = "••••••"  # in place of a secret of any length
SURFACES = ("terminal", "page", "mock")
# Settings of a bridge under a host, which this command ignores.
OF_HOSTS = ("ABP_ASK_ON", "ABP_QUESTIONS_API", "ABP_AUDIT", "ABP_RECORD")
# How the user chooses another surface.
_OPTIONS: Options = {
    Surface.PAGE: Way("--on page", "you are asked on a page of the bridge's own"),
    **{each: WAYS[each] for each in (Surface.TERMINAL, Surface.SAMPLING)},
}


def choose_surfaces(settings: Settings, on: str | None) -> Settings:
    """Return `settings` with `on`, one of `SURFACES`, or by default every surface set up."""
    model = () if settings.sampling is None else (Surface.SAMPLING.value,)
    terminals = settings.tty or controlling() or (CONTROLLING if on else None)
    return replace(
        settings,
        tty=terminals,  # also for the page's code
        page="link",
        ask_on=(on, *model) if on else (),
    )


class User:
    """The user of `abp-bridge ask`. Implements `AppListener`; shows notices and progress.

    `mask` returns dots in place of secrets.
    """

    def __init__(
        self, settings: Settings, origin: str, tasks: TaskGroup, *, mask: bool = False
    ) -> None:
        self._origin = origin
        self._mask = mask
        self._roots = settings.roots
        self._serial = 0
        self._terminal = None if settings.tty is None else terminal(settings.tty)
        self._page = LazyPageServer(tasks, settings.page_port)
        register = Register(tasks, settings.question_timeout)
        list_event = register.observer(str)

        def observe(event: SessionEvent) -> None:
            log_event(event)
            list_event(event)

        self._elicitor = Elicitor(
            make_router(settings, _NoHost(), self._send_link, self._page, tasks),
            limit=settings.question_timeout,
            files=FileAccess(self._granted),
            observe=observe,
            on_model_progress=self._on_model_progress,
        )

    async def _send_link(
        self, question: Question, context: AskContext, link: PageLink
    ) -> SurfaceResponse:
        """Show the user the page's address, and wait.

        Raises:
            SurfaceUnsupportedError: Only stderr could show it, which a model may read.
        """
        is_terminal = os.isatty(2)
        is_shown = is_terminal or bool(await link.show_code())
        if is_shown:
            where = link.url if is_terminal else link.address
            print_message(f"{question.origin} asks. Answer at {where}")
        problem = await self._page.open_browser()
        if problem and not is_shown and not await self._page.wait_late_browser():
            raise SurfaceUnsupportedError(
                f"stderr is no terminal to show the page's link on. {problem}. Run it at a"
                " terminal, or name one (--tty DEVICE)",
                lasting=False,
            )
        await anyio.sleep_forever()
        return SurfaceResponse(Outcome.CANCELLED)

    async def _granted(self, context: AskContext) -> Sequence[str]:
        return self._roots

    async def wait_for_page(self) -> None:
        """Give the page, if it was used, the time to show that all is answered."""
        if self._page.is_used:
            await anyio.sleep(THANKS)

    def can_sample(self) -> bool:
        """Offer no model."""
        return False

    def on_disconnect(self, reason: str) -> None:
        """Ignore it: the caller notices."""

    def new_question_id(self) -> str:
        self._serial += 1
        return f"question-{self._serial}"

    async def elicit(self, question: Question, context: AskContext = NO_CONTEXT) -> Answer:
        """Resolve a question on the first surface that can show it (`AppListener.elicit`)."""
        answer = await self._elicitor.resolve(question, context)
        if answer.unasked:
            for way in answer.ways:
                print_message(f"nobody was asked; to be asked: {way}")
        return mask_secrets(question, answer) if self._mask else answer

    def on_notice(self, notice: Notice) -> None:
        self._show_line(describe_notice(notice))

    def on_progress(self, progress: Progress) -> None:
        total = "" if progress.total is None else f" of {progress.total:g}"
        self._show_line(label(f"{progress.value:g}{total}  {progress.message}"))

    def _on_model_progress(self, calls: Sequence[str], words: str) -> None:
        if os.isatty(2):
            self._show_line(words)
        else:
            logger.info("%s", words)

    def _show_line(self, words: str) -> None:
        if self._terminal is not None and self._terminal.is_open:
            self._terminal.say(f"· {self._origin}: {words}")
        else:
            print_message(f"{self._origin}: {words}")


def mask_secrets(question: Question, answer: Answer) -> Answer:
    """Replace the secrets in an answer by dots, and say so on stderr."""
    secret = {field.name for field in question.fields if field.secret}
    shown = {
        name: _dots(value) if name in secret else value for name, value in answer.content.items()
    }
    if shown != answer.content:
        print_message("what is secret stands there as dots; --show prints it")
    return replace(answer, content=shown)


def _dots(value: JsonValue) -> JsonValue:
    return dict.fromkeys(value, DOTS) if isinstance(value, Mapping) else DOTS


class _NoHost:
    """The host surfaces of a command, of which there are none."""

    def variants(self, calls: Sequence[str] = ()) -> Sequence[SurfaceVariant]:
        return ()

    def advise(self, question: Question, context: AskContext) -> Advice:
        return Advice(options=_OPTIONS)

    async def prompt(
        self,
        question: Question,
        context: AskContext,
        variant: SurfaceVariant,
        problem: str = "",
    ) -> SurfaceResponse:
        raise SurfaceUnsupportedError("there is no host here", lasting=True)


# --- a stream ---

_EXAMPLE = (
    'A question is one line: {"jsonrpc": "2.0", "id": 1, "method": "elicitation/confirm", "params":'
    ' {"message": "Go on?"}}'
)


class QuestionStream:
    """The requests of `ask -`, which one user answers."""

    def __init__(self, user: User, origin: str, reader: ByteReader, writer: StreamWriter) -> None:
        self._user = user
        self._origin = origin
        self._writer = writer
        self._open = 0  # requests that have no answer yet
        self._is_lost = False  # whether a line was no request
        self._answered = anyio.Event()
        binding = Binding()
        self._connection = JsonRpcConnection(
            JsonRpcProtocol(max_line=MAX_LINE, inward=binding.inward, outward=binding.outward),
            _LastingReader(reader, self._wait_answered),
            writer,
            on_message=self._on_message,
            on_protocol_error=self._on_protocol_error,
        )

    async def serve(self) -> int:
        """Answer until stdin has ended and all questions are answered, or stdout is closed."""
        async with anyio.create_task_group() as self._tasks:
            self._tasks.start_soon(self._watch_writer)
            await self._connection.run()
            self._tasks.cancel_scope.cancel()
            return 1 if self._open or self._is_lost else 0
        return 1  # nobody reads

    async def _watch_writer(self) -> None:
        await self._writer.wait_closed()
        self._tasks.cancel_scope.cancel()

    def _on_message(self, message: Request | Notification) -> None:
        asks = message.method.startswith(("elicitation/", "sampling/"))
        if isinstance(message, Request) and asks:
            self._open += 1
            self._tasks.start_soon(self._respond, message)
        elif isinstance(message, Request):
            words = f"abp-bridge ask has no method {message.method[:80]!r}"
            self._connection.respond_error(message.id, METHOD_NOT_FOUND, words)
        elif asks:
            self._is_lost = True
            print_message(
                f"{label(message.method, 80)} came without an id, so that nothing can answer it"
            )
        elif message.method == abp.PROGRESS:
            if (progress := abp.decode_progress(message.params)) is not None:
                self._user.on_progress(progress)
        else:
            self._user.on_notice(
                abp.decode_notice({"event": message.method, "data": message.params})
            )

    def _on_protocol_error(self, error: UnmatchedResponse | InvalidMessage) -> None:
        self._is_lost = True
        if isinstance(error, InvalidMessage):
            print_message(f"a line was not understood: {label(error.reason)}. {_EXAMPLE}")
        else:
            print_message(f"a line answers what nobody asked. {_EXAMPLE}")

    async def _respond(self, request: Request) -> None:
        response = await handle_elicitation(
            {"method": request.method, "params": request.params}, self._user, self._origin
        )
        self._connection.respond(request.id, response)
        self._open -= 1
        self._answered.set()

    async def _wait_answered(self) -> None:
        while self._open:
            self._answered = anyio.Event()
            await self._answered.wait()
        await self._connection.sent()
        await self._user.wait_for_page()


class _LastingReader(ByteReader):
    """End when `wait_answered` returns, and add a missing last newline."""

    def __init__(self, reader: ByteReader, wait_answered: Callable[[], Awaitable[None]]) -> None:
        self._reader = reader
        self._wait_answered = wait_answered
        self._last = b"\n"

    async def receive(self) -> bytes:
        if data := await self._reader.receive():
            self._last = data
            return data
        if not self._last.endswith(b"\n"):
            self._last = b"\n"
            return self._last
        await self._wait_answered()
        return b""

    def close(self) -> None:
        self._reader.close()
