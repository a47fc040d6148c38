"""This terminal as the MCP host of a spawned bridge, for `demo` and `try`.

`run_host` spawns the bridge, connects the app, and gives the command a `TerminalHost` for its
calls. The user or an answers file answers; `terminal_view` shows all of it.
"""

from __future__ import annotations

import io
import json
import logging
import os
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

import anyio

from abp_bridge import VERSION
from abp_bridge.cli.runtime import complain, signals_interrupt
from abp_bridge.cli.terminal_view import PERSON, Account, JsonView, Offer, Output, TextView, View
from abp_bridge.core.answer import validate_answer
from abp_bridge.core.json_value import JsonObject
from abp_bridge.core.ledger import describe_notice
from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.core.question import Field, FieldType, Kind, Question, read_introduced
from abp_bridge.core.sanitize import label, message
from abp_bridge.errors import AbpBridgeError, RemoteProtocolError, describe_bug
from abp_bridge.protocols.schema_fields import decode_field
from abp_bridge.session.context import NO_CONTEXT
from abp_bridge.session.surface import SurfaceResponse
from abp_bridge.surfaces.answers_file import Script
from abp_bridge.surfaces.terminal.surface import MANY_INTERRUPTS, Terminal

if TYPE_CHECKING:
    import argparse

    import mcp_types as types
    from mcp import Client

logger = logging.getLogger(__name__)

START_LIMIT = 30.0  # seconds for an answer of the bridge's
CALL_LIMIT = 4 * 3600.0  # seconds for a call and its questions, each of which has its own time
_OWN_WORDS = "(Capability "  # with which the bridge goes on, in a tool's description
LAST_WORDS = 4_000  # characters of the bridge's stderr, where it could not be used

FILE = "the answers file"  # who answers, where it is one
TAKEN_BACK = "nobody: it is not waited for any more"
_UNVISITED = SurfaceResponse(
    Outcome.UNSUPPORTED, answered_by=AnsweredBy.NOBODY, reason="no entry goes to a page"
)
ONCE_MORE = "Ctrl-C once more ends abp-bridge {}."
LOOK_INTERVAL = 1.0  # seconds between looks at which questions wait on the page


class CommandError(AbpBridgeError):
    """The end of the command; the message says why, `code` is its exit code."""

    def __init__(self, words: str, code: int = 1) -> None:
        super().__init__(words)
        self.code = code


@dataclass(frozen=True, slots=True)
class Answerer:
    """Who answers the questions that the bridge sends to this host.

    Attributes:
        by: Their name; `PERSON` is the user at this terminal.
        introduction: What is shown before the first question.
        hosts: This host declares elicitation.
        links: It only shows links to the bridge's page.
        by_bridge: The bridge asks for secrets at this terminal itself.
        warning: What is shown before the first call.
        account: The bridge's word for who answered -> a name, and a sentence.
        sampling: A canned model answer; None without a model.
    """

    by: str
    introduction: str
    script: Script | None = None
    hosts: bool = True
    links: bool = False
    by_bridge: bool = False
    warning: str = ""
    account: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    sampling: str | None = None


class CallEnd(NamedTuple):
    """How a call ended, and the files of its result that were saved, as they are shown."""

    failed: bool
    files: list[str]


def add_host_options(parser: argparse.ArgumentParser) -> None:
    """Add `--answers` and `--json`."""
    option = parser.add_argument
    option(
        "--answers",
        metavar="FILE",
        help="answer from a JSON file instead of asking here: a list, one entry a question",
    )
    option("--json", action="store_true", help="one JSON object a line instead of words")
    # The tracebacks of the SDK are not for this screen.
    parser.set_defaults(without_stdout=True, log_own_only=True)


def at_terminal() -> bool:
    """Whether the user can be asked here."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def replace_unencodable() -> None:
    """Write a question mark for what the standard streams cannot encode."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


Work = Callable[["TerminalHost"], Awaitable[None]]


def run_host(host: Callable[[], TerminalHost], work: Work, command: str) -> int:
    """Run the `work` of a command with the host that `host` makes; return the exit code."""
    with tempfile.TemporaryFile("w+", errors="replace") as words:
        code = anyio.run(lambda: host().serve(work, words))
        words.seek(0)
        if code == 1 and (last := message(words.read()[-LAST_WORDS:])):
            complain(f"the bridge's last words:\n{last}", command)
    return code


class TerminalHost:
    """One session with a spawned bridge. Implements the callbacks of `mcp.Client`.

    Args:
        command: The name of this command.
        target: The app.
        arguments: Further arguments of the bridge; `environ` its further variables.
    """

    def __init__(
        self,
        command: str,
        target: str,
        answerer: Answerer,
        *,
        as_json: bool,
        arguments: Sequence[str] = (),
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._command = command
        self._target = target
        self._answerer = answerer
        self._script = answerer.script
        self._by = answerer.by
        self._warning = answerer.warning  # until it is said
        self.terminal = Terminal() if answerer.by == PERSON else None
        output = Output(self._on_output_error)
        name = f"abp-bridge {command}"
        self.view: View = JsonView(output, name) if as_json else TextView(output, self.terminal)
        self.tools_changed = anyio.Event()
        self._arguments = arguments
        self._environ = dict(environ or {})
        self._session = anyio.CancelScope()
        self._code: int | None = None
        self._origins: list[str] = []
        self._numbers = count(1)  # of the questions
        self._client: Client | None = None
        self._began = 0.0
        self._on_page: set[anyio.CancelScope] = set()  # questions whose person went to the page

    def _finish(self, code: int) -> None:
        if self._code is None:
            self._code = code
        self._session.cancel()

    def fail(self) -> None:
        self._code = self._code or 1

    def _on_output_error(self, problem: OSError) -> None:
        if not isinstance(problem, BrokenPipeError):
            complain(f"stdout cannot be written: {problem.strerror}", self._command)
        self._finish(1)

    async def serve(self, work: Work, words: TextIO) -> int:
        """The whole run; `words` takes the bridge's stderr. Returns the exit code."""
        async with signals_interrupt(self._on_signal):
            with self._session:
                try:
                    await self._connect_and_do(work, words)
                except Exception as problem:  # whatever it is, is said in a line
                    if self._code is None:
                        self._code, why = _explain(problem)
                        self.view.on_error(self._code, why)
                        complain(why, self._command)
        if self._code is not None and self._code > 128 and self.terminal is not None:
            self.view.note("Ended. The bridge is closed.")
        return self._code or 0

    def _on_signal(self, number: int) -> None:
        """Cancel the open question on Ctrl-C, else end the session."""
        if number == signal.SIGINT and self.terminal is not None:
            if self.terminal.interrupt():
                return
            if self._on_page and self.terminal.interrupts == 0:
                self.terminal.interrupts += 1
                for scope in self._on_page:
                    scope.cancel()
                return
        self._finish(128 + number)

    async def _connect_and_do(self, work: Work, words: TextIO) -> None:
        from mcp import Client, StdioServerParameters
        from mcp.client.stdio import stdio_client
        from mcp_types import Implementation

        if self._answerer.introduction:
            self.view.note(self._answerer.introduction)
        self._began = anyio.current_time()
        bridge = StdioServerParameters(
            command=sys.executable,
            args=["-P", "-m", "abp_bridge", "serve", "--app", self._target, *self._arguments],
            env=self._environment(),
        )
        client = Client(
            stdio_client(bridge, errlog=words),
            mode="legacy",
            read_timeout_seconds=START_LIMIT,
            client_info=Implementation(name=f"abp-bridge-{self._command}", version=VERSION),
            elicitation_callback=self._on_question if self._answerer.hosts else None,
            sampling_callback=None if self._answerer.sampling is None else self._on_sampling,
            logging_callback=self._on_log,
            message_handler=self._on_message,
        )
        async with client:
            self._client = client
            await self._connect(client)
            await work(self)

    def _environment(self) -> dict[str, str]:
        ignored = ignored_variables(scripted=self._script is not None)
        return {
            # Here every answer is typed or written down by somebody, however fast it comes.
            "ABP_PERSON_FLOOR": "0",
            "ABP_HOST_PATIENCE": "86400000",  # this host waits as long as its person does
            **{name: value for name, value in os.environ.items() if name not in ignored},
            **self._environ,
        }

    # --- what the work is done with ---

    @property
    def client(self) -> Client:
        assert self._client is not None
        return self._client

    async def _connect(self, client: Client) -> None:
        connected = await client.call_tool("abp_connect", {}, read_timeout_seconds=CALL_LIMIT)
        if connected.is_error:
            raise CommandError(_first_text(connected))
        status = await self.status()
        self._origins = [label(app["origin"]) for app in status["apps"].values()]
        app = next(iter(status["apps"].values()))
        server = client.server_info
        name = f"{server.name} {server.version}" if server else "a bridge without a name"
        self.view.on_connected(
            bridge=label(name),
            mcp=client.protocol_version,
            app=label(app["name"]),
            origin=label(app["origin"]),
            surfaces=[label(f"{each['surface']} {each['version']}") for each in status["surfaces"]],
            answers=self._by,
        )
        for warning in app["warnings"]:
            self.view.on_warning(label(warning, 1_000))

    async def offers(self) -> list[Offer]:
        status = await self.status()
        known = [each for app in status["apps"].values() for each in app["capabilities"]]
        tools = (await self.client.list_tools()).tools
        # The bridge's own tools come first, then one for each capability, in the status's order.
        return [
            Offer(
                name=label(each["name"]),
                tool=tool.name,
                description=message(tool.description or "").partition(_OWN_WORDS)[0].strip(),
                schema=tool.input_schema,
                available=each["available"],
                deprecated=label(each.get("deprecated", "")),
                asks_first=each.get("needsApproval", False),
                asked=tuple(each.get("askedOfPerson", ())),
            )
            for each, tool in zip(known, tools[len(tools) - len(known) :], strict=True)
        ]

    async def tool_names(self) -> set[str]:
        return {tool.name for tool in (await self.client.list_tools()).tools}

    async def call(
        self, capability: str, params: JsonObject | None = None, about: str = ""
    ) -> CallEnd:
        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            self.view.on_progress(capability, progress, total, label(message or ""))

        if self._warning:
            self.view.note(self._warning)
            self._warning = ""
        self.view.on_call(capability, about)
        async with anyio.create_task_group() as tasks:
            if self.terminal is None and self._script is None:
                tasks.start_soon(self._show_waiting)
            result = await self.client.call_tool(
                "abp_call",
                {"capability": capability, **({"params": dict(params)} if params else {})},
                read_timeout_seconds=CALL_LIMIT,
                progress_callback=on_progress,
            )
            tasks.cancel_scope.cancel()
            ended = CallEnd(bool(result.is_error), _files(result))
            self.view.on_result(capability, ended.failed, _first_text(result), ended.files)
            return ended
        raise AssertionError("a group that is not cancelled from outside ends with a result")

    async def _show_waiting(self) -> None:
        told = set[str]()
        while True:
            await anyio.sleep(LOOK_INTERVAL)
            for each in await self._open_questions():
                if each["id"] not in told:
                    told.add(each["id"])
                    self.view.note(f"Waits for you on the page{_until(each)}: {each['message']}")

    async def _open_questions(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = (await self.status())["questions"]["open"]
        return rows

    async def status(self) -> dict[str, Any]:
        result = await self.client.call_tool("abp_status", {})
        status: dict[str, Any] = json.loads(_first_text(result))
        return status

    async def show_account(self) -> None:
        questions = (await self.status())["questions"]
        self.view.on_end(self._account(questions, anyio.current_time() - self._began))
        if self._script is not None and self._script.misfits:
            self.fail()

    def _account(self, questions: Mapping[str, Any], seconds: float) -> Account:
        """The bridge's questions, with who answered for the user or the model."""
        answerers = self._answerer.account
        rows = [dict(row) for row in questions["ended"]]
        for row in rows:
            if row["answeredBy"] in answerers:
                row["answerer"] = answerers[row["answeredBy"]][0]
        used = {row.get("answerer") for row in rows}
        who = [f"{name}: {why}" for name, why in answerers.values() if name in used]
        remarks = [] if self._script is None else self._script.unused
        return Account(rows, questions["endedCount"], seconds, who, remarks)

    # --- mcp.Client's callbacks: what the bridge asks and tells ---

    async def _on_question(
        self, context: object, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        from mcp_types import INVALID_PARAMS, ElicitResult, ErrorData

        from abp_bridge.protocols.host_words import encode_account
        from abp_bridge.protocols.mcp.server_elicitation import decode_form, encode_reply

        if self._answerer.links:
            self.view.note(message(params.message))
            await anyio.sleep_forever()  # nothing is accepted here: the page has the answer
        number = next(self._numbers)
        id = f"question-{number}"
        if params.mode == "url":
            return await self._on_link(number, id, params)
        form = params.model_dump(by_alias=True, exclude_none=True)
        try:
            question = decode_form(form, id=id, origin="the bridge")
        except RemoteProtocolError as problem:
            return ErrorData(code=INVALID_PARAMS, message=str(problem))
        response = await self._prompt_on(number, question, self.terminal or self._script)
        reply = encode_reply(question, response.outcome, response.content)
        account = encode_account(response.answered_by, reason=response.reason)
        return ElicitResult.model_validate({**reply, **account})

    async def _on_link(
        self, number: int, id: str, params: types.ElicitRequestURLParams
    ) -> types.ElicitResult | types.ErrorData:
        from mcp_types import INVALID_PARAMS, ElicitResult, ErrorData

        from abp_bridge.protocols.host_words import encode_account
        from abp_bridge.session.elicited import page_id_prefix

        rows = await self._open_questions()
        named = label(params.elicitation_id)
        is_apps = any(row.get("elicitationId") == named for row in rows)
        asked = _link_question(id, params, _APPS_ADDRESS if is_apps else _OWN_PAGE)
        if self._answerer.by_bridge and not is_apps:
            asked = replace(asked, fields=(_PAGE_OR_HERE,))
        response = await self._prompt_on(number, asked, self.terminal)
        outcome, content = response.outcome, response.content
        if content == {GO: False} and asked.fields == (_PAGE_OR_HERE,):  # the bridge asks here then
            return ErrorData(code=INVALID_PARAMS, message="the person wants it in the terminal")
        if content == {GO: True}:
            if is_apps:
                return ElicitResult(action="accept")
            own = (row for row in rows if named.startswith(page_id_prefix(row["id"])))
            outcome = await self._wait_for_page(next(own, {}))
        dismissed = outcome in (Outcome.CANCELLED, Outcome.UNSUPPORTED)
        account = encode_account(response.answered_by, reason=response.reason)
        action = "cancel" if dismissed else "decline"
        return ElicitResult.model_validate({"action": action, **account})

    async def _wait_for_page(self, row: Mapping[str, Any]) -> Outcome:
        """Wait until the bridge cancels this request, as the page has the answer, or for Ctrl-C."""
        self.view.note(f"Waits for you on that page{_until(row)}; Ctrl-C cancels the question.")
        with anyio.CancelScope() as scope:
            self._on_page.add(scope)
            try:
                await anyio.sleep_forever()
            finally:
                self._on_page.discard(scope)
        self.view.note(ONCE_MORE.format(self._command))
        return Outcome.CANCELLED

    async def _prompt_on(
        self, number: int, question: Question, surface: Terminal | Script | None
    ) -> SurfaceResponse:
        """Prompt on `surface`, if there is one, and show the answer, which is validated."""
        question = self._with_origin(question)
        response = SurfaceResponse(Outcome.WITHDRAWN)  # where the bridge takes it back
        by = TAKEN_BACK if self.terminal is None else self._by
        self.view.on_question(number, question, self._by)
        try:
            response = await surface.prompt(question, NO_CONTEXT) if surface else _UNVISITED
            response = replace(response, content=validate_answer(question, response.content)[0])
            nobody = response.answered_by is AnsweredBy.NOBODY
            by = f"nobody: {response.reason}" if nobody else self._by
        finally:
            self.view.on_answer(number, question, response.outcome, response.content, by)
        self.check_interrupts()
        return response

    def check_interrupts(self) -> None:
        pressed = self.terminal.interrupts if self.terminal is not None else 0
        if pressed >= MANY_INTERRUPTS:
            self._finish(128 + signal.SIGINT)
        elif pressed:
            self.view.note(ONCE_MORE.format(self._command))

    def _with_origin(self, question: Question) -> Question:
        """The bridge puts the app's origin first in the message: here it is who asks."""
        for origin in self._origins:
            _, asks, words = question.message.partition(f"{origin} asks:")
            if asks and question.message.startswith(asks):
                return replace(question, origin=origin, message=read_introduced(words))
        return question

    async def _on_sampling(
        self, context: object, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult:
        from mcp_types import CreateMessageResult, TextContent

        number = next(self._numbers)
        contents = [each.content for each in params.messages]
        task = " ".join(each.text for each in contents if isinstance(each, TextContent))
        origin = ", ".join(self._origins)
        words = self._answerer.sampling or ""
        by = f"the {self._command} itself"
        question = Question(f"question-{number}", Kind.SAMPLING, message(task), (), origin)
        self.view.on_question(number, question, by)
        self.view.on_answer(number, question, Outcome.ACCEPTED, {"result": words}, by)
        return CreateMessageResult(
            role="assistant", content=TextContent(type="text", text=words), model="none"
        )

    async def _on_log(self, params: types.LoggingMessageNotificationParams) -> None:
        from abp_bridge.protocols.abp import decode_notice

        data = params.data if isinstance(params.data, Mapping) else {"event": "log"}
        notice = decode_notice({"event": data.get("event"), "data": data.get("data")})
        words, origin = label(describe_notice(notice), 1_000), label(params.logger or "the bridge")
        self.view.on_log(params.level, origin, words, dict(notice.data))

    async def _on_message(self, message: object) -> None:
        from mcp_types import ToolListChangedNotification

        if isinstance(message, ToolListChangedNotification):
            self.tools_changed.set()
            self.tools_changed = anyio.Event()


GO = "go"


_PAGE_OR_HERE = decode_field(
    GO,
    {
        "oneOf": [
            {"const": True, "title": "On that page"},
            {"const": False, "title": "Here: what is secret is not shown as it is typed"},
        ]
    },
    required=True,
)


_OWN_PAGE = "This is answered on a page of the bridge's own: {}"
_APPS_ADDRESS = "It asks you to open {}"


def ignored_variables(*, scripted: bool) -> tuple[str, ...]:
    """The variables that the bridge does not inherit: this host decides who answers."""
    return ("ABP_ANSWERS", "ABP_ASK_ON", *(("ABP_PAGE", "ABP_TTY") if scripted else ()))


def _link_question(id: str, params: types.ElicitRequestURLParams, directions: str) -> Question:
    """An address to go to: a person here can, a script cannot."""
    words = f"{message(params.message)}\n\n{directions.format(params.url)}"
    field = Field(GO, FieldType.BOOLEAN, {"type": "boolean"}, title="Go there")
    return Question(id, Kind.INPUT, words, (field,), "the bridge")


def _until(row: Mapping[str, Any]) -> str:
    left = row.get("secondsLeft")
    return (
        "" if left is None else time.strftime(", until %H:%M", time.localtime(time.time() + left))
    )


def _first_text(result: types.CallToolResult) -> str:
    """The first block of a result; what the app told meanwhile was shown when it came."""
    first = result.content[0] if result.content else None
    return str(getattr(first, "text", ""))


def _files(result: types.CallToolResult) -> list[str]:
    from mcp_types import ResourceLink

    links = [each for each in result.content if isinstance(each, ResourceLink)]
    return [label(each.description or each.name, 1_000) for each in links]


def _explain(problem: BaseException) -> tuple[int, str]:
    from mcp import MCPError

    while isinstance(problem, BaseExceptionGroup):
        problem = problem.exceptions[0]
    if isinstance(problem, CommandError):
        return problem.code, message(problem)
    gone = (MCPError, OSError, anyio.BrokenResourceError, anyio.ClosedResourceError)
    if isinstance(problem, gone):
        logger.debug("the session with the bridge ended badly", exc_info=problem)
        return 1, f"the bridge could not be used: {message(problem) or type(problem).__name__}"
    logger.error("the session with the bridge failed", exc_info=problem)
    return 1, describe_bug(problem)
