"""`abp-bridge ask`: ABP elicitations from a shell or a program, put to the person at this terminal,
on the page, or to written answers.

Owns the command and its pipe. What a question is, who may be asked and what counts as an answer is
the same as for an app behind the bridge.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import TaskGroup

from abp_bridge.apps.elicitation import handle_elicitation
from abp_bridge.apps.stdio import MAX_LINE, Binding
from abp_bridge.bridge.elicitor import Elicitor
from abp_bridge.bridge.files import FileAccess
from abp_bridge.bridge.providers import Providers
from abp_bridge.cli.compose import answers, terminal
from abp_bridge.cli.runtime import (
    add_setting_options,
    discard_stdout,
    give_up,
    load_settings,
    signals_interrupt,
)
from abp_bridge.core import json_text
from abp_bridge.core.event import Observer, no_observer
from abp_bridge.core.matrix import ORDER, Surface, SurfaceVariant
from abp_bridge.core.notice import Notice, Progress, describe
from abp_bridge.core.question import Answer, Kind, Outcome, Question
from abp_bridge.core.sanitize import label
from abp_bridge.errors import AbpBridgeError
from abp_bridge.interfaces.surface import InputProvider, SurfaceResponse, SurfaceUnsupportedError
from abp_bridge.log import print_message
from abp_bridge.protocols import abp
from abp_bridge.rpc.connection import ByteReader, JsonRpcConnection
from abp_bridge.rpc.protocol import (
    METHOD_NOT_FOUND,
    InvalidMessage,
    JsonRpcProtocol,
    Notification,
    Request,
    UnmatchedResponse,
)
from abp_bridge.rpc.streams import StreamReader, StreamWriter, take_over_stdio
from abp_bridge.settings import Settings
from abp_bridge.surfaces.terminal.device import CONTROLLING, controlling
from abp_bridge.surfaces.terminal.surface import Terminal

if TYPE_CHECKING:
    import argparse

    from abp_bridge.cli.runtime import Subparsers

DESCRIPTION = """\
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

STREAM = "-"
MAX_REQUEST = 16 * 2**20
THANKS = 1.0  # seconds for the browser that answered to get the page that says so

# What may be left off a method's name, and what the words after it are: the message, and what else
# its params need most.
_METHODS = (
    {kind.value.removeprefix("elicitation/"): kind for kind in Kind}
    | {kind.value: kind for kind in Kind}
    | {"sampling": Kind.SAMPLING}
)
_SECOND = {Kind.SELECT: "options", Kind.PREFERENCE: "default", Kind.RESOURCE: "type"}


class UsageError(AbpBridgeError):
    """A command line that means nothing; the message says what would."""


@dataclass(frozen=True, slots=True)
class AskOptions:
    """How questions are asked: `on` one surface, or on those there are; `origin` is shown as who
    asks.
    """

    settings: Settings
    on: str | None = None
    origin: str = ""


def read_request(what: str, more: Sequence[str]) -> dict[str, Any]:
    """METHOD and its params (a JSON object, or words), or a FILE with a request -> the request.

    Raises UsageError.
    """
    kind = _METHODS.get(what)
    if kind is None and not more:
        return _read_file(what)
    if kind is None:
        raise UsageError(
            f"{what!r} is no method of ABP; there are {', '.join(each.value for each in Kind)}, or"
            " their last word"
        )
    if more and more[0].lstrip().startswith("{"):
        if len(more) > 1:
            raise UsageError("after the params as JSON nothing else is expected")
        return {"method": kind.value, "params": _parsed(more[0], "the params")}
    return {"method": kind.value, "params": _worded(kind, more)}


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
        with open(path, "rb") as file:
            data = file.read(MAX_REQUEST + 1)
    except (OSError, ValueError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else problem
        known = ", ".join(name for name in _METHODS if "/" not in name)
        raise UsageError(
            f"{path!r} is neither a method ({known}) nor a file that can be read: {why}"
        ) from None
    if len(data) > MAX_REQUEST:
        raise UsageError(f"{path} is larger than {MAX_REQUEST} bytes")
    request = _parsed(data, path)
    if not isinstance(request.get("method"), str):
        raise UsageError(
            f'{path} holds no request: it must be {{"method": "elicitation/confirm", "params":'
            ' {"message": "Go on?"}}'
        )
    return (
        {**request, "method": _METHODS[request["method"]].value}
        if request["method"] in _METHODS
        else request
    )


def _parsed(data: str | bytes, what: str) -> dict[str, Any]:
    try:
        parsed = json_text.parse(data)
    except ValueError as problem:
        raise UsageError(f"{what}: not JSON: {label(problem)}") from None
    if not isinstance(parsed, dict):
        raise UsageError(f"{what}: must be a JSON object")
    return parsed


def add_parser(commands: Subparsers) -> None:
    """Add `ask`."""
    import argparse

    parser = commands.add_parser(
        "ask",
        help="put one question, or a stream of them, to you here, and print the answer",
        usage=(
            "abp-bridge ask [OPTION]... METHOD [PARAMS]\n       abp-bridge ask [OPTION]... FILE\n  "
            "     COMMAND | abp-bridge ask [OPTION]... -"
        ),
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    option = parser.add_argument
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
    option("--as", dest="origin", metavar="NAME", help="who asks, as it is shown")
    add_setting_options(parser, "ask")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Ask one thing, or whatever is asked on stdin. Returns the exit code."""
    # Where it asks, --on says.
    settings = load_settings(options, ignored=("ABP_ASK_ON", "ABP_QUESTIONS_API"))
    streams = options.what == STREAM
    origin = options.origin or ("a program" if streams else "this command")
    try:
        if options.on == "mock" and settings.answers is None:
            raise UsageError("--on mock needs --answers FILE")
        if streams and options.more:
            raise UsageError("'ask -' takes its requests from stdin, and no params")
        request = None if streams else read_request(options.what, options.more)
        return _ask(AskOptions(settings, options.on, origin), request)
    except UsageError as problem:
        give_up(f"{problem}. abp-bridge ask --help shows how")


def _ask(options: AskOptions, request: Mapping[str, Any] | None) -> int:
    if request is not None:
        return anyio.run(_run_until_signal, _Once(options, request))
    if os.isatty(0):
        raise UsageError("'ask -' reads requests that a program writes: COMMAND | abp-bridge ask -")
    return anyio.run(_run_until_signal, _Stream(options, *take_over_stdio()))


async def _run_until_signal(errand: _Once | _Stream) -> int:
    """A signal ends everything at once, and quietly."""
    caught: list[int] = []
    code = 0
    working = anyio.CancelScope()

    def on_signal(number: int) -> None:
        caught.append(number)
        working.cancel()

    async with signals_interrupt(on_signal), anyio.create_task_group() as tasks:
        with working:
            code = await errand.run(tasks)
        tasks.cancel_scope.cancel()
    return 128 + caught[0] if caught else code


class _Person:
    """Whoever answers. Implements `AppListener` for whoever asks."""

    def __init__(self, options: AskOptions, tasks: TaskGroup) -> None:
        self._origin = options.origin
        self._serial = 0
        self._terminal: Terminal | None = None
        self._on_page = False
        self._roots = options.settings.roots
        settings = options.settings
        providers = Providers(_Nobody(), self._own(options, tasks), ORDER)
        files = FileAccess(self._granted)
        self._asking = Elicitor(
            providers,
            limit=settings.question_timeout,
            min_human_latency=settings.min_human_latency,
            files=files,
        )

    def _own(self, options: AskOptions, tasks: TaskGroup) -> dict[Surface, InputProvider]:
        settings, own = options.settings, dict[Surface, InputProvider]()
        if options.on in (None, "mock") and settings.answers is not None:
            own[Surface.MOCK] = answers(settings.answers)
        if options.on in (None, "terminal"):
            device = settings.tty or controlling() or (None if options.on is None else CONTROLLING)
            if device is not None:
                self._terminal = own[Surface.TERMINAL] = terminal(device)
        if options.on in (None, "page"):
            from abp_bridge.surfaces.page.surface import LazyPageServer, PageSurface

            own[Surface.PAGE] = PageSurface(LazyPageServer(tasks), self._point)
        return own

    async def _point(self, question: Question, url: str) -> Outcome:
        """Tell the person where the page is; that has the answer, sooner or later."""
        from abp_bridge.surfaces.page.browser import leading_to, open_browser

        self._on_page = True
        print_message(f"{question.origin} asks. Answer at {url}")
        with leading_to(url) as address:
            await open_browser(address)
            await anyio.sleep_forever()
        return Outcome.CANCELLED

    async def leave(self) -> None:
        """Everything is answered, and the answers are out."""
        if self._on_page:
            await anyio.sleep(THANKS)

    async def _granted(self, question: Question) -> Sequence[str]:
        return self._roots

    def new_question_id(self) -> str:
        self._serial += 1
        return f"question-{self._serial}"

    async def ask(self, question: Question) -> Answer:
        return await self._asking.ask(question)

    def on_notice(self, notice: Notice) -> None:
        self._say(describe(notice))

    def on_progress(self, progress: Progress) -> None:
        amount = f"{progress.value:g}" + (
            "" if progress.total is None else f" of {progress.total:g}"
        )
        self._say(label(f"{amount}  {progress.message}"))

    def on_disconnect(self, reason: str) -> None:
        """Its questions are still answered: a pipeline closes its end when it has asked."""

    def _say(self, words: str) -> None:
        if self._terminal is not None and self._terminal.is_open:
            self._terminal.say(f"· {self._origin}: {words}")
        else:
            print_message(f"{self._origin}: {words}")


class _Nobody:
    """There is no host here."""

    def variants(self, calls: Sequence[str] = ()) -> Sequence[SurfaceVariant]:
        return ()

    async def ask(
        self,
        question: Question,
        variant: SurfaceVariant,
        problem: str = "",
        observe: Observer = no_observer,
    ) -> SurfaceResponse:
        raise SurfaceUnsupportedError("there is no host here", lasting=True)


class _Once:
    """One question, and its response on stdout."""

    def __init__(self, options: AskOptions, request: Mapping[str, Any]) -> None:
        self._options = options
        self._request = request

    async def run(self, tasks: TaskGroup) -> int:
        """0 when it was answered, 2 when it is no question, 1 for everything else."""
        person = _Person(self._options, tasks)
        response = await handle_elicitation(dict(self._request), person, self._options.origin)
        try:
            sys.stdout.write(
                json.dumps(response, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None)
                + "\n"
            )
            sys.stdout.flush()
        except UnicodeEncodeError:
            sys.stdout.write(json.dumps(response) + "\n")
        except OSError:
            discard_stdout()
            return 1
        await person.leave()
        if response["success"]:
            return 0
        return 2 if response["error"]["code"] == "INVALID_PARAMS" else 1


class _Stream:
    """Requests on stdin, each answered on stdout: ABP on a pipe, in either of its bindings."""

    def __init__(self, options: AskOptions, source: StreamReader, sink: StreamWriter) -> None:
        self._options = options
        self._sink = sink
        self._source = source
        self._open = 0
        self._quiet = anyio.Event()

    async def run(self, tasks: TaskGroup) -> int:
        """Until stdin has ended and everything is answered (0), or nobody reads stdout any more
        (1).
        """
        binding = Binding()
        peer = JsonRpcProtocol(max_line=MAX_LINE, inward=binding.inward, outward=binding.outward)
        self._person = _Person(self._options, tasks)
        self._link = JsonRpcConnection(
            peer,
            _Patient(self._source, self._answered),
            self._sink,
            on_message=self._take,
            on_protocol_error=self._odd,
        )
        unread = False
        async with anyio.create_task_group() as self._tasks:

            async def watch() -> None:
                nonlocal unread
                await self._sink.wait_closed()
                unread = True
                self._tasks.cancel_scope.cancel()

            self._tasks.start_soon(watch)
            await self._link.run()
            self._tasks.cancel_scope.cancel()
        self._link.close()
        return 1 if unread or self._open else 0

    def _take(self, message: Request | Notification) -> None:
        asks = message.method.startswith(("elicitation/", "sampling/"))
        if isinstance(message, Request):
            if asks:
                self._open += 1
                self._tasks.start_soon(self._answer, message)
            else:
                self._link.respond_error(
                    message.id,
                    METHOD_NOT_FOUND,
                    f"abp-bridge ask has no method {message.method[:80]!r}",
                )
        elif asks:
            print_message(
                f"{label(message.method, 80)} came without an id, so that nothing can answer it"
            )
        elif message.method == abp.PROGRESS:
            if (progress := abp.decode_progress(message.params)) is not None:
                self._person.on_progress(progress)
        else:
            self._person.on_notice(
                abp.decode_notice({"event": message.method, "data": message.params})
            )

    def _odd(self, odd: UnmatchedResponse | InvalidMessage) -> None:
        if isinstance(odd, InvalidMessage):
            print_message(f"a line was not understood: {label(odd.reason)}")

    async def _answer(self, request: Request) -> None:
        response = await handle_elicitation(
            {"method": request.method, "params": request.params}, self._person, self._options.origin
        )
        self._link.respond(request.id, response)
        self._open -= 1
        if not self._open:
            self._quiet.set()

    async def _answered(self) -> None:
        """Returns when no question is open, and all answers are on their way."""
        while self._open:
            self._quiet = anyio.Event()
            await self._quiet.wait()
        await self._link.sent()
        await self._person.leave()


class _Patient(ByteReader):
    """Stdin, which ends only when `over` returns: who has asked may close it and wait.

    Its last line may lack its end.
    """

    def __init__(self, source: StreamReader, over: Any) -> None:
        self._source = source
        self._over = over
        self._last = b"\n"

    async def receive(self) -> bytes:
        if data := await self._source.receive():
            self._last = data
            return data
        if not self._last.endswith(b"\n"):
            self._last = b"\n"
            return self._last
        await self._over()
        return b""

    def close(self) -> None:
        self._source.close()
