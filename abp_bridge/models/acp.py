"""Agents behind the Agent Client Protocol, as models.

Each turn has its own process, environment and folder, which costs the agent's start (0.3 to 3
seconds). A session continues as the agent kept it: by `session/resume`, else by `session/load`.
The bridge offers no files, terminals, forms or MCP servers and refuses every permission. An agent
that may use its tools does so by its own permissions.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import anyio

from abp_bridge.core.json_value import (
    JsonObject,
    JsonValue,
    as_count,
    as_list,
    as_number,
    as_object,
    as_text,
    to_text,
)
from abp_bridge.core.redact.command import clean_target, show_command
from abp_bridge.core.sanitize import SCRIPTS, label
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.jsonrpc.connection import ConnectionClosedError, RemoteError
from abp_bridge.jsonrpc.program_lines import NO_RESPONSE
from abp_bridge.jsonrpc.protocol import METHOD_NOT_FOUND
from abp_bridge.jsonrpc.subprocess import Child, child_environment, spawn
from abp_bridge.jsonrpc.tap import Tap, unobserved_stream
from abp_bridge.models.agent import (
    MAX_ANSWER,
    MAX_PARTS,
    SHORT,
    AgentError,
    AgentErrorCode,
    AgentMessage,
    AgentResponse,
    Availability,
    Chunk,
    ChunkKind,
    Cost,
    EndlessTurnError,
    Image,
    OnChunk,
    ToolCall,
    ToolsNeededError,
    Usage,
    ignore_chunk,
    images_of,
)
from abp_bridge.models.session import LocalAgent, Session, format_prompt
from abp_bridge.protocols.acp import agent as acp_agent
from abp_bridge.protocols.acp.agent import AUTH_REQUIRED, ENDED_CALL, STOPS, encode_refusal
from abp_bridge.session.app import only_error

if TYPE_CHECKING:
    from abp_bridge.acp.agent_session import AgentSession

LOAD, RESUME = "session/load", "session/resume"
# The modes in which agents use no tool without asking, by their ids, as ACP has no word for what a
# mode permits. In its plan mode Claude asks a classifier instead, so that comes last.
CAUTIOUS = ("read-only", "approve", "ask", "default", "chat", "plan")
_CURRENCY = re.compile("[A-Z]{3}")  # ISO 4217
_HARMLESS = ("think", "switch_mode")  # kinds of tool calls that neither do nor disclose anything


@dataclass(frozen=True, slots=True)
class Mode:
    """A mode of a session; `option` is the config option that holds it, empty for an ACP session
    mode.
    """

    id: str
    option: str = ""


def decode_resume(about: JsonObject) -> str:
    """Return the method that continues a session, preferring the one without replay; empty for
    none.
    """
    declared = as_object(about.get("agentCapabilities"))
    if isinstance(as_object(declared.get("sessionCapabilities")).get("resume"), dict):
        return RESUME
    return LOAD if declared.get("loadSession") is True else ""


def takes_images(about: JsonObject) -> bool:
    """Return whether an agent with this `initialize` result accepts images in prompts."""
    declared = as_object(about.get("agentCapabilities"))
    return as_object(declared.get("promptCapabilities")).get("image") is True


def decode_mode(opened: JsonObject) -> Mode | None:
    """Return the most cautious known mode of a new session; None if there is none or it is set
    already.
    """
    for option in _options(opened, "mode"):
        values = [as_text(each.get("value")) for each in _values(option)]
        return _most_cautious(values, option.get("currentValue"), as_text(option.get("id")))
    modes = as_object(opened.get("modes"))
    listed = map(as_object, as_list(modes.get("availableModes")))
    return _most_cautious([as_text(each.get("id")) for each in listed], modes.get("currentModeId"))


def decode_model(opened: JsonObject) -> str:
    """Return the name of a new session's model; empty if unknown."""
    names = (as_text(each.get("currentValue")) for each in _options(opened, "model"))
    return label(next(names, ""), 120)


def _options(opened: JsonObject, category: str) -> Iterator[JsonObject]:
    options = map(as_object, as_list(opened.get("configOptions")))
    return (each for each in options if each.get("category") == category)


def _values(option: JsonObject) -> Iterator[JsonObject]:
    """List an option's values, grouped ones too."""
    for each in map(as_object, as_list(option.get("options"))):
        yield from map(as_object, as_list(each.get("options"))) if "options" in each else (each,)


def _most_cautious(ids: list[str], current: JsonValue, option: str = "") -> Mode | None:
    named = {id.casefold().replace("_", "-"): id for id in ids}
    found = next((named[word] for word in CAUTIOUS if word in named), None)
    return None if found is None or found == current else Mode(found, option)


def decode_failure(code: int, message: str, data: JsonValue, sign_in: str) -> AgentError:
    """Turn a JSON-RPC error into an AgentError; `sign_in` tells the user how to sign in."""
    if code == AUTH_REQUIRED:
        return AgentError(AgentErrorCode.AUTH_REQUIRED, sign_in)
    details = "" if data is None else f": {label(to_text(data), SHORT)}"
    words = f"{label(message, SHORT) or 'it gave no reason'} ({code}){details}"
    return AgentError(AgentErrorCode.FAILED, words)


class ModelTurn:
    """One turn, from its prompt to its result.

    Args:
        tools: Whether the agent may use its own tools. If not, a tool used without asking fails the
            turn, as its answer may contain the tool's output.

    Attributes:
        failure: Why the turn fails, known before its end.
    """

    def __init__(self, *, tools: bool) -> None:
        self.failure: AgentError | None = None
        self._tools = tools
        # Messages by their ids; agents that have ids send warnings without one.
        self._messages: dict[str, list[str]] = {}
        self._unnamed: dict[int, list[str]] = {}
        self._calls: dict[str, ToolCall] = {}
        self._kinds: dict[str, str] = {}  # of those
        self._refused: set[str] = set()
        self._cost: Cost | None = None
        self._used: int | None = None  # tokens of its context, as it said last
        self._is_in_error = False  # Codex's word for a turn that it ends well all the same
        self._size = 0

    def apply_update(self, update: JsonObject) -> Iterator[Chunk]:
        """Add an update of the session and yield what is new in it."""
        kind = as_text(update.get("sessionUpdate"))
        if kind == "agent_message_chunk":
            yield from self._say(update)
        elif kind == "agent_thought_chunk":
            yield Chunk(ChunkKind.THOUGHT, as_text(as_object(update.get("content")).get("text")))
        elif kind in ("tool_call", "tool_call_update"):
            yield from self._follow(kind, update)
        elif kind == "notice":
            words = (as_text(update.get(name)) for name in ("title", "description"))
            yield Chunk(ChunkKind.NOTICE, ": ".join(filter(None, words)), update)
        else:
            if kind == "usage_update":
                self._cost = _cost(as_object(update.get("cost"))) or self._cost
                self._used = as_count(update.get("used"))
            elif kind == "session_info_update" and (status := _thread_status(update)):
                self._is_in_error = status == "systemError"
            yield Chunk(kind or "unknown", data=update)

    def refuse(self, params: JsonObject) -> JsonObject:
        """Return the result that refuses a `session/request_permission`."""
        if len(self._refused) < MAX_PARTS:
            self._refused.add(as_text(as_object(params.get("toolCall")).get("toolCallId")))
        return encode_refusal(params)

    def finish(self, raw: JsonObject) -> AgentResponse:
        """Return the answer for the result of the prompt. Raises AgentError."""
        if self.failure is not None:
            raise self.failure
        reason = raw.get("stopReason")
        if reason != "end_turn":
            raise _stop(reason)
        warnings, messages = ["".join(each) for each in self._unnamed.values()], self._messages
        said = ["".join(each) for each in messages.values()] or warnings
        if said and self._is_its_own(raw):
            words = f"no model has answered; it says itself: {label(said[-1].strip(), SHORT)}"
            raise AgentError(AgentErrorCode.FAILED, words)
        if self._is_in_error:
            words = label("".join(warnings).strip(), SHORT) or "it says that it failed, and not why"
            raise AgentError(AgentErrorCode.FAILED, words)
        earlier = [*(warnings if messages else ()), *said[:-1]]
        return AgentResponse(
            said[-1] if said else None,
            tuple(self._calls.values()),
            _usage(as_object(raw.get("usage")), self._cost),
            "end_turn",
            metadata={"earlierMessages": earlier} if earlier else {},
        )

    def _is_its_own(self, raw: JsonObject) -> bool:
        """Whether the text is the program's own: some report an unreachable model as the answer of
        a
        successful turn, and count no tokens then.
        """
        if as_object(raw.get("usage")):
            return False
        return self._used == 0 or ("usage" in raw and not self._messages)

    # --- updates ---

    def _say(self, update: JsonObject) -> Iterator[Chunk]:
        block = as_object(update.get("content"))
        text = block.get("text") if block.get("type") == "text" else None
        self._size += len(text) if isinstance(text, str) else len(json.dumps(block))
        if self._size > MAX_ANSWER:
            self._fail(EndlessTurnError("says", MAX_ANSWER, "characters"))
        elif not isinstance(text, str):
            yield Chunk(as_text(block.get("type")) or "unknown", data=block)
        elif text:
            if id := as_text(update.get("messageId")):
                self._messages.setdefault(id, []).append(text)
            else:  # a tool call ends a message that has no id
                self._unnamed.setdefault(len(self._calls), []).append(text)
            if len(self._messages) > MAX_PARTS:
                self._fail(EndlessTurnError("says", MAX_PARTS, "messages"))
            yield Chunk(ChunkKind.TEXT, text)

    def _follow(self, kind: str, update: JsonObject) -> Iterator[Chunk]:
        id = as_text(update.get("toolCallId"))
        is_new = id not in self._calls
        if is_new and len(self._calls) >= MAX_PARTS:
            self._fail(EndlessTurnError("calls", MAX_PARTS, "tools"))
            return
        call = self._calls[id] = self._read_call(id, update)
        self._kinds[id] = as_text(update.get("kind")) or self._kinds.get(id, "")
        if is_new:
            yield Chunk(ChunkKind.TOOL_START, call.name, {"id": id, "arguments": call.arguments})
        if update.get("status") in ENDED_CALL:
            self._judge(call)
            yield Chunk(ChunkKind.TOOL_END, data={**update, "id": id})
        elif not is_new:
            yield Chunk(kind, data=update)

    def _read_call(self, id: str, update: JsonObject) -> ToolCall:
        known = self._calls.get(id) or ToolCall(id, "")
        name = known.name or as_text(update.get("name")) or as_text(update.get("title"))
        return ToolCall(id, name, as_object(update.get("rawInput")) or known.arguments)

    def _judge(self, call: ToolCall) -> None:
        """Fail the turn if an ended tool call, failed or not, was neither allowed nor refused."""
        if self._tools or call.id in self._refused or self._kinds[call.id] in _HARMLESS:
            return
        words = f"it has used a tool without asking, and may use none: {label(call.name, 120)}"
        self._fail(ToolsNeededError(AgentErrorCode.FAILED, words))

    def _fail(self, failure: AgentError) -> None:
        self.failure = self.failure or failure


def _stop(reason: JsonValue) -> AgentError:
    known = STOPS.get(reason) if isinstance(reason, str) else None
    if known is None:
        words = f"ACP has no stop reason {label(reason, 80)!r}"
        return AgentError(AgentErrorCode.PROTOCOL, words)
    return AgentError(AgentErrorCode(known.code), known.message)


def _thread_status(update: JsonObject) -> str:
    """Return the status of Codex's thread; empty if the update has none."""
    codex = as_object(as_object(update.get("_meta")).get("codex"))
    return as_text(as_object(codex.get("threadStatus")).get("type"))


def _cost(cost: JsonObject) -> Cost | None:
    amount, unit = as_number(cost.get("amount")), as_text(cost.get("currency"))
    if amount is None or amount < 0 or not _CURRENCY.fullmatch(unit):
        return None
    return Cost(amount, unit, "session")


def _usage(tokens: JsonObject, cost: Cost | None) -> Usage | None:
    """Return the tokens of a turn. Cached tokens are input too: some agents include them in it,
    others
    do not, as the total shows.
    """
    if not tokens and cost is None:
        return None
    into, out = as_count(tokens.get("inputTokens")), as_count(tokens.get("outputTokens"))
    names = ("cachedReadTokens", "cachedWriteTokens")
    cached = sum(filter(None, (as_count(tokens.get(name)) for name in names)))
    known = (into or 0) + (out or 0) + cached
    if into is not None and known <= (as_count(tokens.get("totalTokens")) or 0):
        into += cached
    return Usage("turn", into, out, cost)


START_LIMIT = 60.0  # seconds for the handshake: npx and uvx fetch a program first
CANCEL_LIMIT = 5.0  # seconds to end a turn that was cancelled: some wait for their model
END_LIMIT = 2.0  # seconds for a process that says no more to be gone


class AcpAgent(LocalAgent):
    """A command that speaks ACP on its stdio.

    Args:
        command: The program and its arguments.
        folder: Parent of the folders of sessions without a workspace; the caller removes it.
        tap: Observes its pipes.
    """

    def __init__(self, command: Sequence[str], folder: str, tap: Tap = unobserved_stream) -> None:
        super().__init__(show_command(command), folder)
        program, *arguments = command
        self._program = program
        # It works in another folder than the one that a path was written for.
        program = os.path.abspath(program) if os.sep in program else program
        self._command = [program, *map(_find_file, arguments)]
        self._tap = tap

    async def available(self) -> Availability:
        """Start and initialize it."""
        exchange = _Exchange(ModelTurn(tools=False), ignore_chunk)
        try:
            async with self._connect(exchange, {}, self.folder):
                pass
        except AgentError as problem:
            return Availability(str(problem))
        name = acp_agent.decode_info(exchange.about).name
        version = label(as_object(exchange.about.get("agentInfo")).get("version") or "", 40)
        return Availability(version=f"{name} {version}".rstrip())

    def find_obstacle(self, *, images: bool = False) -> str:
        """Look for its program; whether it takes images is known once it runs."""
        if shutil.which(self._program):
            return ""
        return f"there is no program {label(clean_target(self._program))} here"

    # --- one turn ---

    async def _run_program(
        self,
        session: Session,
        messages: Sequence[AgentMessage],
        on_chunk: OnChunk,
        *,
        resumes: bool,
    ) -> AgentResponse:
        config = session.options.cli_config
        turn = ModelTurn(tools=config.tools)
        exchange = _Exchange(turn, on_chunk)
        async with self._connect(exchange, config.environment, session.folder) as agent:
            images = images_of(messages)
            if images and not takes_images(exchange.about):
                words = f"{self.title} takes no images (promptCapabilities.image)"
                raise AgentError(AgentErrorCode.NO_IMAGES, words)
            enter = self._go_on if resumes else self._begin
            opened = await enter(agent, exchange.about, session)
            mode = None if config.tools else decode_mode(opened)
            if mode is not None:
                await agent.set_mode(mode.id, mode.option)
            result = await exchange.prompt(agent, format_prompt(messages), images)
            session.id = agent.id
        return replace(turn.finish(result), model=decode_model(opened))

    async def _begin(self, agent: AgentSession, about: JsonObject, session: Session) -> JsonObject:
        return await agent.start_conversation(session.folder)

    async def _go_on(self, agent: AgentSession, about: JsonObject, session: Session) -> JsonObject:
        if not (method := decode_resume(about)):
            words = f"{self.title} offers neither session/resume nor session/load"
            raise AgentError(AgentErrorCode.SESSION_UNKNOWN, words)
        go_on = agent.resume if method == RESUME else agent.load
        try:
            return await go_on(session.id, session.folder)
        except RemoteError as problem:
            if problem.code == acp_agent.AUTH_REQUIRED:
                raise
            words = f"it does not go on with {label(session.id, 80)}: {label(problem, 300)}"
            raise AgentError(AgentErrorCode.SESSION_UNKNOWN, words) from None

    # --- its process ---

    @asynccontextmanager
    async def _connect(
        self, exchange: _Exchange, environment: Mapping[str, str], cwd: str
    ) -> AsyncIterator[AgentSession]:
        """Run the agent, initialized, during the block. Raises AgentError."""
        env = {**child_environment(), **environment}
        try:
            async with (
                only_error(AgentError, OSError),
                spawn(self._command, env=env, cwd=cwd) as child,
                self._open(child, exchange) as agent,
                self._only_agent_errors(child, exchange),
            ):
                await self._greet(agent, exchange)
                yield agent
        except OSError as problem:
            words = f"{self.title} cannot be started: {problem}"
            raise AgentError(AgentErrorCode.NOT_AVAILABLE, words) from None

    @asynccontextmanager
    async def _open(self, child: Child, exchange: _Exchange) -> AsyncIterator[AgentSession]:
        """Open a session on its pipes; the tap sees them close."""
        from abp_bridge.acp.agent_session import open_session

        source, sink = self._tap(child.stdout, child.stdin)
        with closing(sink):
            async with open_session(source, sink, exchange) as agent:
                yield agent

    async def _greet(self, agent: AgentSession, exchange: _Exchange) -> None:
        try:
            with anyio.fail_after(START_LIMIT):
                exchange.about = await agent.initialize(elicits=False)
        except TimeoutError:
            words = f"{self.title} did not answer within {START_LIMIT:g} s. Does it speak ACP?"
            raise AgentError(AgentErrorCode.TIMEOUT, words) from None

    @asynccontextmanager
    async def _only_agent_errors(self, child: Child, exchange: _Exchange) -> AsyncIterator[None]:
        """Turn errors of the connection into AgentError."""
        try:
            yield
        except RemoteError as problem:
            said = as_text(problem.error.get("message"))
            if NO_RESPONSE in said:
                raise AgentError(AgentErrorCode.PROTOCOL, said) from None
            sign_in = acp_agent.decode_sign_in(exchange.about, self.title)
            raise decode_failure(problem.code, said, problem.data, sign_in) from None
        except RemoteProtocolError as problem:
            words = f"{self.title}: {problem}"
            raise AgentError(AgentErrorCode.PROTOCOL, words) from None
        except ConnectionClosedError:
            raise await self._end(child, exchange.malformed) from None

    async def _end(self, child: Child, malformed: str) -> AgentError:
        """Explain why it stopped."""
        with anyio.move_on_after(END_LIMIT):
            await child.process.wait()
            await child.heard.wait()
        if child.process.returncode is None:
            words = f"{self.title} can be understood no more: {malformed or 'it closed its stdout'}"
            return AgentError(AgentErrorCode.PROTOCOL, words)
        words = f"{self.title} ended before its turn was over ({child.ending})"
        return AgentError(AgentErrorCode.AGENT_DIED, words)


def _find_file(word: str) -> str:
    """Make an argument absolute that is the path of an existing file or script."""
    is_path = os.sep in word or word.endswith(SCRIPTS)
    return os.path.abspath(word) if is_path and os.path.exists(word) else word


class _Exchange:
    """One prompt, and the listener to the agent meanwhile (`AgentListener`).

    Attributes:
        about: The agent's result of `initialize`.
        malformed: What was wrong with its last invalid line.
    """

    def __init__(self, turn: ModelTurn, on_chunk: OnChunk) -> None:
        self.about: JsonObject = {}
        self.malformed = ""
        self._turn = turn
        self._on_chunk = on_chunk
        self._session = ""  # once its prompt is sent: what is told before that is no news
        self._over = anyio.Event()  # it is answered, or there will be no answer
        self._result: JsonObject | None = None
        self._problem: Exception | None = None

    async def prompt(self, agent: AgentSession, words: str, images: Sequence[Image]) -> JsonObject:
        """Prompt the agent and return its result, empty if the turn failed before.

        An abandoned or failed turn is cancelled first and awaited. Raises RemoteError,
        ConnectionClosedError.
        """
        self._session = agent.id
        answered = anyio.Event()
        asking = anyio.CancelScope(shield=True)

        async def request() -> None:
            with asking:
                await self._prompt(agent, words, images)
            self._over.set()
            answered.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(request)
            try:
                await self._over.wait()
            finally:
                if not answered.is_set():
                    with anyio.move_on_after(CANCEL_LIMIT, shield=True):
                        await agent.cancel_turn()
                        await answered.wait()
                asking.cancel()
        if self._problem is not None:
            raise self._problem
        return self._result or {}

    async def _prompt(self, agent: AgentSession, words: str, images: Sequence[Image]) -> None:
        try:
            shown = [(each.data, each.kind) for each in images]
            self._result = await agent.prompt(words, shown)
        except (RemoteError, ConnectionClosedError) as problem:
            self._problem = self._problem or problem

    # --- AgentListener ---

    async def on_request(self, method: str, params: JsonObject) -> JsonObject:
        """Refuse every request."""
        if method == "session/request_permission":
            return self._turn.refuse(params)
        if method == "elicitation/create":
            return {"action": "decline"}
        words = f"{label(method, 80)} is not offered by this client"
        raise RemoteError({"code": METHOD_NOT_FOUND, "message": words}, 0.0)

    def on_notification(self, method: str, params: JsonObject) -> None:
        """Report an update of this turn to the listener."""
        session = as_text(params.get("sessionId"))
        if method != "session/update" or not self._session or session != self._session:
            return
        try:
            for chunk in self._turn.apply_update(as_object(params.get("update"))):
                self._on_chunk(chunk)
        except Exception as problem:  # whatever who listens raised is raised where they wait
            self._problem = self._problem or problem
        if self._problem is not None or self._turn.failure is not None:
            self._over.set()

    def on_malformed(self, reason: str) -> None:
        """Keep the reason: this may be its last line."""
        self.malformed = reason

    def on_end(self) -> None:
        """Do nothing: the pending request fails by itself."""
