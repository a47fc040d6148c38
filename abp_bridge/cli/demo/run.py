"""`abp-bridge demo`: the built-in app behind a real, spawned bridge, and this terminal as its MCP
host.

Owns the story and the host's callbacks. Who answers is `surfaces.terminal` or `answers`; how it
looks is `view`.
"""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from typing import IO, TYPE_CHECKING, Any

import anyio

from abp_bridge import VERSION
from abp_bridge.cli.demo.answers import BUILT_IN, Script
from abp_bridge.cli.demo.view import PERSON, Account, JsonView, Output, TextView, View
from abp_bridge.cli.runtime import complain, signals_interrupt
from abp_bridge.core.json_value import JsonObject, JsonValue
from abp_bridge.core.notice import describe
from abp_bridge.core.question import Field, FieldType, Kind, Outcome, Question, validate_answer
from abp_bridge.core.sanitize import label, message
from abp_bridge.errors import AbpBridgeError, RemoteProtocolError
from abp_bridge.interfaces.surface import SurfaceResponse
from abp_bridge.surfaces.answers_file import AnswersError, decode_entries, read_answers
from abp_bridge.surfaces.terminal.surface import MANY_INTERRUPTS, Terminal

if TYPE_CHECKING:
    import argparse

    import mcp_types as types
    from mcp import Client


HELP = "the built-in app behind a real bridge, with this terminal as its host"
DESCRIPTION = (
    "Spawns 'abp-bridge serve', is its MCP host, and shows what the built-in app asks and tells."
)

STORY = (
    ("demo.trip", "every kind of question, with progress and notices in between"),
    ("demo.work", "work that only reports"),
    ("demo.grow", "one capability more, while you watch"),
)
NO_MODEL = "(no model here) This sentence is the demo's own: have a good trip!"

START_LIMIT = 30.0  # seconds for an answer of the bridge's
CONNECT_LIMIT = 120.0  # seconds for the app, which may be a browser's first start
SCRIPTED_LIMIT = 120.0  # seconds for a call whose questions a script answers
PERSON_LIMIT = 4 * 3600.0  # seconds for one whose questions a person answers
GROWTH_LIMIT = 5.0  # seconds for a new capability to be a tool
LAST_WORDS = 4_000  # characters of the bridge's stderr, where it could not be used

# Who answers, where it is not the person here.
SCRIPT, FILE, DEMO = "the demo's script", "the answers file", "the demo itself"
_INTRODUCTIONS = {
    PERSON: "You are asked; Ctrl-C cancels a question, and a second one ends the demo.",
    SCRIPT: "The questions are answered by the demo's script, as {why}.",
    FILE: "The questions are answered from your answers file.",
}
# What the account calls them, and says of them.
_TAKEN = ", which the bridge takes for the person."
_ANSWERERS = {
    SCRIPT: ("script", f"the demo's own{_TAKEN}"),
    FILE: ("file", f"your answers file{_TAKEN}"),
    DEMO: ("demo", "there is no model here; the demo gave a sentence of its own."),
}


class DemoError(AbpBridgeError):
    """The demo cannot go on; the message is the bridge's own, or says what to do."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add which app, who answers, and how it is told."""
    option = parser.add_argument
    option("--browser", action="store_true", help="the same app as a page in Chromium")
    option(
        "--answers",
        metavar="FILE",
        help="answer from a JSON file instead of asking here: a list, one entry a question",
    )
    option("--json", action="store_true", help="one JSON object a line instead of words")
    # The tracebacks of the SDK are not for this screen.
    parser.set_defaults(without_stdout=True, log_own_only=True)


def run(options: argparse.Namespace) -> int:
    """Tell the story.

    Returns:
        The exit code: 0 when it was told, 1 when it could not be, 2 for an unusable answers file,
        128 + n after signal n.
    """
    browser, answers, as_json = options.browser, options.answers, options.json
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # what cannot be encoded is a question mark
    try:
        entries = decode_entries(BUILT_IN) if answers is None else read_answers(answers)
    except AnswersError as problem:
        return complain(problem, "demo")
    ask_here = answers is None and not as_json and _at_terminal()
    script = None if ask_here else Script(entries)
    by = PERSON if ask_here else SCRIPT if answers is None else FILE
    with tempfile.TemporaryFile("w+", errors="replace") as words:
        code = anyio.run(_play, browser, script, as_json, by, words)
        words.seek(0)
        if code == 1 and (last := message(words.read()[-LAST_WORDS:])):
            complain(f"the bridge's last words:\n{last}", "demo")
    return code


async def _play(
    browser: bool, script: Script | None, as_json: bool, by: str, words: IO[str]
) -> int:
    return await Demo(browser, script, as_json, by).play(words)


def _at_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


class Demo:
    """One run. Implements the callbacks of `mcp.Client`."""

    def __init__(self, browser: bool, script: Script | None, as_json: bool, by: str) -> None:
        self._target = "demo:page" if browser else "demo"
        self._script = script
        self._by = by
        self._terminal = Terminal() if script is None else None
        output = Output(self._on_output_error)
        self._view: View = JsonView(output) if as_json else TextView(output, self._terminal)
        self._session = anyio.CancelScope()
        self._code: int | None = None
        self._origins: list[str] = []
        self._numbers = count(1)  # of the questions
        self._tools_changed = anyio.Event()

    def _end(self, code: int) -> None:
        if self._code is None:
            self._code = code
        self._session.cancel()

    def _on_output_error(self, problem: OSError) -> None:
        if not isinstance(problem, BrokenPipeError):
            complain(f"stdout cannot be written: {problem.strerror}", "demo")
        self._end(1)

    async def play(self, words: IO[str]) -> int:
        """The whole run; `words` takes the bridge's stderr. Returns the exit code."""
        async with signals_interrupt(self._on_signal):
            with self._session:
                try:
                    await self._tell_story(words)
                except Exception as problem:
                    if self._code is None:
                        self._code = 1
                        complain(_why(problem), "demo")
        if self._code is not None and self._code > 128 and self._terminal is not None:
            self._view.note("Ended. The bridge is closed.")
        return self._code or 0

    def _on_signal(self, number: int) -> None:
        """Ctrl-C cancels the question that is open here, if one is; else it ends the session."""
        if number == signal.SIGINT and self._terminal is not None and self._terminal.interrupt():
            return
        self._end(128 + number)

    # --- the story ---

    async def _tell_story(self, words: IO[str]) -> None:
        from mcp import Client, StdioServerParameters
        from mcp.client.stdio import stdio_client
        from mcp_types import Implementation

        self._introduce()
        began = anyio.current_time()
        bridge = StdioServerParameters(
            command=sys.executable,
            args=["-P", "-m", "abp_bridge", "serve", "--app", self._target],
            env=self._environment(),
        )
        client = Client(
            stdio_client(bridge, errlog=words),  # type: ignore[arg-type]
            mode="legacy",
            read_timeout_seconds=START_LIMIT,
            client_info=Implementation(name="abp-bridge-demo", version=VERSION),
            elicitation_callback=self._on_question,
            sampling_callback=self._on_sampling,
            logging_callback=self._on_log,
            message_handler=self._on_message,
        )
        async with client:
            await self._connect(client)
            for capability, about in STORY:
                await self._call(client, capability, about)
            questions = (await self._status(client))["questions"]
            self._view.on_end(self._account(questions, anyio.current_time() - began))
        if self._script is not None and self._script.misfits:
            self._code = 1

    def _introduce(self) -> None:
        self._view.note(
            "A real bridge (abp-bridge serve), the built-in app behind it, and this terminal as its"
            " MCP host."
        )
        why = "the output is for a program" if _at_terminal() else "there is no terminal to ask at"
        self._view.note(_INTRODUCTIONS[self._by].format(why=why))

    def _environment(self) -> dict[str, str]:
        environment = {
            # Here every answer is typed or written down by somebody, however fast it comes: the
            # bridge must not take it for a host's policy.
            "ABP_PERSON_FLOOR": "0",
            "ABP_HOST_PATIENCE": "86400000",  # this host waits as long as its person does
            **os.environ,
        }
        as_root = self._target == "demo:page" and os.geteuid() == 0
        if as_root and "ABP_CHROME_SANDBOX" not in environment:
            environment["ABP_CHROME_SANDBOX"] = "0"
            self._view.note(
                "As root, Chromium runs without its sandbox (ABP_CHROME_SANDBOX=0): it opens the"
                " demo's own page only."
            )
        return environment

    async def _connect(self, client: Client) -> None:
        connected = await client.call_tool("abp_connect", {}, read_timeout_seconds=CONNECT_LIMIT)
        if connected.is_error:
            raise DemoError(_text(connected))
        status = await self._status(client)
        self._origins = [label(app["origin"]) for app in status["apps"].values()]
        app = next(iter(status["apps"].values()))
        server = client.server_info
        name = f"{server.name} {server.version}" if server else "a bridge without a name"
        self._view.on_connected(
            bridge=label(name),
            mcp=client.protocol_version,
            app=label(app["name"]),
            origin=label(app["origin"]),
            surfaces=[label(f"{each['surface']} {each['version']}") for each in status["surfaces"]],
            answers=self._by,
        )

    async def _call(self, client: Client, capability: str, about: str) -> None:
        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            self._view.on_progress(capability, progress, total, label(message or ""))

        before = {tool.name for tool in (await client.list_tools()).tools}
        self._view.on_call(capability, about)
        limit = SCRIPTED_LIMIT if self._terminal is None else PERSON_LIMIT
        result = await client.call_tool(
            "abp_call",
            {"capability": capability},
            read_timeout_seconds=limit,
            progress_callback=on_progress,
        )
        self._view.on_result(capability, bool(result.is_error), _text(result))
        if result.is_error:
            raise DemoError(f"{capability} failed")
        if capability == "demo.grow":
            await self._show_growth(client, before)

    async def _show_growth(self, client: Client, before: set[str]) -> None:
        with anyio.move_on_after(GROWTH_LIMIT):
            while True:
                changed = self._tools_changed
                if added := {tool.name for tool in (await client.list_tools()).tools} - before:
                    names = ", ".join(map(label, sorted(added)))
                    self._view.note(f"The list of tools changed: {names} is new.")
                    return
                await changed.wait()
        raise DemoError("the new capability never became a tool")

    async def _status(self, client: Client) -> dict[str, Any]:
        status: dict[str, Any] = json.loads(_text(await client.call_tool("abp_status", {})))
        return status

    def _account(self, questions: Mapping[str, Any], seconds: float) -> Account:
        """The questions as the bridge has them; who answered in its person's and its model's place
        is known here only.
        """
        answerers = {"model": _ANSWERERS[DEMO]}
        if self._script is not None:
            answerers["person"] = _ANSWERERS[self._by]
        rows = [dict(row) for row in questions["ended"]]
        for row in rows:
            if row["answeredBy"] in answerers:
                row["answerer"] = answerers[row["answeredBy"]][0]
        used = {row["answeredBy"] for row in rows}
        who = [f"{name}: {why}" for word, (name, why) in answerers.items() if word in used]
        remarks = [] if self._script is None else self._script.remarks()
        return Account(rows, questions["endedCount"], seconds, who, remarks)

    # --- mcp.Client's callbacks: what the bridge asks and tells ---

    async def _on_question(
        self, context: object, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        from mcp_types import INVALID_PARAMS, ElicitResult, ErrorData

        from abp_bridge.protocols.mcp.server_elicitation import decode_form, encode_reply

        number = next(self._numbers)
        id = f"question-{number}"
        if params.mode == "url":
            _, content = await self._ask(number, _link_question(id, params), self._terminal)
            return ElicitResult(action="accept" if content == {GO: True} else "decline")
        form = params.model_dump(by_alias=True, exclude_none=True)
        try:
            question = decode_form(form, id=id, origin="the bridge")
        except RemoteProtocolError as problem:
            return ErrorData(code=INVALID_PARAMS, message=str(problem))
        outcome, content = await self._ask(number, question, self._terminal or self._script)
        return ElicitResult.model_validate(encode_reply(question, outcome, content))

    async def _ask(
        self, number: int, question: Question, surface: Terminal | Script | None
    ) -> tuple[Outcome, JsonObject]:
        """Ask on `surface` and show it; where there is none, it is declined. Returns the outcome
        and the validated content.
        """
        question = self._with_origin(question)
        outcome, content = Outcome.CANCELLED, dict[str, JsonValue]()
        self._view.on_question(number, question, self._by)
        try:
            response = await surface.ask(question) if surface else _DECLINED
            outcome, content = response.outcome, validate_answer(question, response.content)[0]
        finally:
            self._view.on_answer(number, question, outcome, content, self._by)
        pressed = self._terminal.interrupts if self._terminal is not None else 0
        if pressed >= MANY_INTERRUPTS:
            self._end(128 + signal.SIGINT)
        elif pressed:
            self._view.note("Ctrl-C once more ends the demo.")
        return outcome, content

    def _with_origin(self, question: Question) -> Question:
        """The bridge puts the app's origin first in the message: here it is who asks."""
        for origin in self._origins:
            words = question.message.removeprefix(f"{origin} asks: ")
            if words != question.message:
                return replace(question, origin=origin, message=words)
        return question

    async def _on_sampling(
        self, context: object, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult:
        from mcp_types import CreateMessageResult, TextContent

        number = next(self._numbers)
        contents = [each.content for each in params.messages]
        task = " ".join(each.text for each in contents if isinstance(each, TextContent))
        origin = ", ".join(self._origins)
        question = Question(f"question-{number}", Kind.SAMPLING, message(task), (), origin)
        self._view.on_question(number, question, DEMO)
        self._view.on_answer(number, question, Outcome.ACCEPTED, {"result": NO_MODEL}, DEMO)
        return CreateMessageResult(
            role="assistant", content=TextContent(type="text", text=NO_MODEL), model="none"
        )

    async def _on_log(self, params: types.LoggingMessageNotificationParams) -> None:
        from abp_bridge.protocols.abp import decode_notice

        data = params.data if isinstance(params.data, Mapping) else {"event": "log"}
        notice = decode_notice({"event": data.get("event"), "data": data.get("data")})
        words, origin = label(describe(notice), 1_000), label(params.logger or "the bridge")
        self._view.on_log(params.level, origin, words, dict(notice.data))

    async def _on_message(self, message: object) -> None:
        from mcp_types import ToolListChangedNotification

        if isinstance(message, ToolListChangedNotification):
            self._tools_changed.set()
            self._tools_changed = anyio.Event()


GO = "go"
_DECLINED = SurfaceResponse(Outcome.DECLINED)


def _link_question(id: str, params: types.ElicitRequestURLParams) -> Question:
    """What is answered on the bridge's own page: a person here can go there, a script cannot."""
    words = (
        f"{message(params.message)}\n\nThis is answered on a page of the bridge's own: {params.url}"
    )
    field = Field(GO, FieldType.BOOLEAN, {"type": "boolean"}, title="Go there")
    return Question(id, Kind.INPUT, words, (field,), "the bridge")


def _text(result: types.CallToolResult) -> str:
    """The first block of a result; what the app told meanwhile was shown when it came."""
    first = result.content[0] if result.content else None
    return str(getattr(first, "text", ""))


def _why(problem: BaseException) -> str:
    while isinstance(problem, BaseExceptionGroup) and problem.exceptions:
        problem = problem.exceptions[0]
    if isinstance(problem, DemoError):
        return message(problem)
    return f"the bridge could not be used: {message(problem) or type(problem).__name__}"
