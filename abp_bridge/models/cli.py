"""Agents by their command lines: one process a turn, in its own process group.

The prompt goes to stdin, as other users of the machine can read arguments. The program writes one
JSON object a line. A turn is whole when the line that ends it was read: a program that ends without
it was cut off, whatever its exit code. An unknown line becomes a chunk of the line's name.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import anyio

from abp_bridge.core.json_value import (
    JsonObject,
    JsonValue,
    as_count,
    as_list,
    as_number,
    as_object,
    as_text,
)
from abp_bridge.core.sanitize import label
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.jsonrpc.connection import ByteReader, ByteWriter
from abp_bridge.jsonrpc.memory_pipe import write_all
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
    OnChunk,
    StartOptions,
    ToolCall,
    ToolsNeededError,
    Usage,
    images_of,
)
from abp_bridge.models.session import LocalAgent, Session
from abp_bridge.protocols.json_lines import JsonLines

_BY_STATUS = {
    401: AgentErrorCode.AUTH_REQUIRED,
    403: AgentErrorCode.AUTH_REQUIRED,
    429: AgentErrorCode.RATE_LIMITED,
}
_CUT = ("max_tokens", "error_max_turns")  # Claude's stop reasons for half an answer


@dataclass(frozen=True, slots=True)
class CliDialect:
    """One agent's command line.

    Attributes:
        program: Its name on the PATH.
        title: Its name in messages.
        start: Arguments of a conversation's first turn; `{}` is replaced by its id.
        resume: Arguments that continue the conversation with the id `{}`.
        toolless: Arguments that disable its tools; None if they cannot be disabled.
        read: Decodes one line.
    """

    program: str
    title: str
    start: Sequence[str]
    resume: Sequence[str]
    toolless: Sequence[str] | None
    read: Callable[[CliTurn, JsonObject], Iterator[Chunk]]

    def command(self, session: str, *, resumes: bool, tools: bool) -> list[str]:
        """Return the command of one turn of conversation `session`.

        Raises:
            ToolsNeededError: Its tools cannot be disabled.
        """
        without: Sequence[str] | None = () if tools else self.toolless
        if without is None:
            words = f"{self.title} cannot be run without its tools"
            raise ToolsNeededError(AgentErrorCode.NOT_AVAILABLE, words)
        arguments = self.resume if resumes else self.start
        return [self.program, *(each.format(session) for each in arguments), *without]


class CliTurn:
    """One turn of a command line.

    Args:
        dialect: How its lines are read.
        session: The conversation's id, until the agent says another.
        resumes: Whether it continues a conversation.

    Attributes:
        failure: Why the turn fails, known before its end.
    """

    def __init__(self, dialect: CliDialect, session: str = "", *, resumes: bool = False) -> None:
        self.session = session
        self.resumes = resumes
        self.failure: AgentError | None = None
        self.is_complete = False
        self.usage: Usage | None = None
        self.stop_reason: str | None = None
        self.final: str | None = None  # the answer, where a dialect says it apart
        self.streamed = ""  # the message whose pieces have come already
        self._dialect = dialect
        self._lines = JsonLines()
        self._messages: dict[str, list[str]] = {}
        self._calls: dict[str, ToolCall] = {}
        self._size = 0

    def feed(self, data: bytes) -> Iterator[Chunk]:
        """Yield what is new in `data`."""
        yield from self._read_lines(self._lines.feed(data))

    def finish(self, status: int, words: str) -> AgentResponse:
        """Return the answer, by exit code and last lines of stderr. Raises AgentError."""
        list(self._read_lines(self._lines.end()))
        if self.failure is not None:
            raise self.failure
        if self.is_complete:
            return self._response()
        said = f": {label(words, SHORT)}" if words.strip() else ""
        if self.resumes and status and not self._messages:
            unknown = f"it does not go on with {label(self.session, 80)}{said}"
            raise AgentError(AgentErrorCode.SESSION_UNKNOWN, unknown)
        if status:
            died = f"it ended with the exit code {status} before its turn was over{said}"
            raise AgentError(AgentErrorCode.AGENT_DIED, died)
        raise AgentError(AgentErrorCode.TRUNCATED, f"it ended before its turn was over{said}")

    def _read_lines(self, lines: Iterator[JsonObject]) -> Iterator[Chunk]:
        try:
            for line in lines:
                yield from self._dialect.read(self, line)
        except RemoteProtocolError as problem:
            self.failure = AgentError(AgentErrorCode.PROTOCOL, str(problem))

    def _response(self) -> AgentResponse:
        messages = ["".join(each) for each in self._messages.values()]
        content = self.final if self.final is not None else messages[-1] if messages else None
        if self.stop_reason in _CUT:
            words = f"its answer was cut off ({self.stop_reason}), after {len(content or '')} char."
            raise AgentError(AgentErrorCode.TRUNCATED, words)
        if self.stop_reason == "refusal":
            raise AgentError(AgentErrorCode.REFUSED, label(content or "it says no more", SHORT))
        calls = tuple(self._calls.values())
        metadata: JsonObject = {"earlierMessages": messages[:-1]} if messages[1:] else {}
        return AgentResponse(content, calls, self.usage, self.stop_reason, metadata=metadata)

    # --- for the dialects ---

    def add_text(self, message: str, text: str) -> Chunk:
        """Add text to the message with that id."""
        self._size += len(text)
        is_new = message not in self._messages
        if self._size > MAX_ANSWER:
            self.failure = EndlessTurnError("says", MAX_ANSWER, "characters")
        elif is_new and len(self._messages) >= MAX_PARTS:
            self.failure = EndlessTurnError("says", MAX_PARTS, "messages")
        elif is_new or text:
            self._messages.setdefault(message, []).append(text)
        return Chunk(ChunkKind.TEXT, text)

    def add_call(self, id: str, name: str, arguments: JsonValue) -> Chunk:
        """Add a tool call; a known one is not counted again."""
        self._calls.setdefault(id, ToolCall(id, name, as_object(arguments)))
        if len(self._calls) > MAX_PARTS:
            self.failure = EndlessTurnError("calls", MAX_PARTS, "tools")
        return Chunk(ChunkKind.TOOL_START, name, {"id": id, "arguments": as_object(arguments)})

    def fail(self, words: JsonValue, code: AgentErrorCode = AgentErrorCode.FAILED) -> None:
        """Fail with the agent's own words; the first reason counts."""
        said = label(as_text(words) or "it says that it failed, and not why", SHORT)
        self.failure = self.failure or AgentError(code, said)


def _by_status(status: JsonValue) -> AgentErrorCode:
    return _BY_STATUS.get(as_count(status) or 0, AgentErrorCode.FAILED)


def _other(line: JsonObject) -> Chunk:
    names = [as_text(line.get("type")), as_text(line.get("subtype"))]
    return Chunk("/".join(filter(None, names)) or "unknown", data=line)


def _ended(id: JsonValue, data: JsonObject) -> Chunk:
    return Chunk(ChunkKind.TOOL_END, data={**data, "id": as_text(id)})


# --- Claude Code ----------------------------------------------------------------------------------


def _claude(turn: CliTurn, line: JsonObject) -> Iterator[Chunk]:
    kind, subtype = line.get("type"), line.get("subtype")
    message = as_object(line.get("message"))
    turn.session = as_text(line.get("session_id")) or turn.session
    if kind == "assistant":
        yield from _claude_message(turn, message)
    elif kind == "user":
        for block in map(as_object, as_list(message.get("content"))):
            if block.get("type") == "tool_result":
                yield _ended(block.get("tool_use_id"), {"result": block.get("content")})
    elif kind == "stream_event":
        yield from _claude_event(turn, as_object(line.get("event")))
    elif kind == "result":
        _claude_result(turn, line)
    elif subtype == "api_retry":
        status = line.get("error_status")
        if status in (401, 403):  # it would try ten times, and the key stays wrong
            words = f"its model does not let it in ({as_text(line.get('error'))})"
            turn.fail(words, AgentErrorCode.AUTH_REQUIRED)
        yield Chunk(ChunkKind.NOTICE, f"its model is tried again: {line.get('error')}", line)
    elif subtype not in ("init", "status"):
        yield _other(line)


def _claude_message(turn: CliTurn, message: JsonObject) -> Iterator[Chunk]:
    id = as_text(message.get("id"))
    for block in map(as_object, as_list(message.get("content"))):
        kind, text = block.get("type"), as_text(block.get("text"))
        if kind == "text" and text:
            said = turn.add_text(id, text)
            if turn.streamed != id:
                yield said
        elif kind == "thinking" and turn.streamed != id:
            yield Chunk(ChunkKind.THOUGHT, as_text(block.get("thinking")))
        elif kind == "tool_use":
            name = as_text(block.get("name"))
            yield turn.add_call(as_text(block.get("id")), name, block.get("input"))


def _claude_event(turn: CliTurn, event: JsonObject) -> Iterator[Chunk]:
    """Read a piece of a message that comes whole afterwards."""
    delta = as_object(event.get("delta"))
    if event.get("type") == "message_start":
        turn.streamed = as_text(as_object(event.get("message")).get("id"))
    elif delta.get("type") == "text_delta":
        yield Chunk(ChunkKind.TEXT, as_text(delta.get("text")))
    elif delta.get("type") == "thinking_delta":
        yield Chunk(ChunkKind.THOUGHT, as_text(delta.get("thinking")))


def _claude_result(turn: CliTurn, line: JsonObject) -> None:
    tokens, price = as_object(line.get("usage")), as_number(line.get("total_cost_usd"))
    # What was read from a cache, or written to one, went in as well.
    cached = ("cache_creation_input_tokens", "cache_read_input_tokens")
    counts = [as_count(tokens.get(name)) for name in ("input_tokens", *cached)]
    into = None if counts[0] is None else sum(filter(None, counts))
    cost = None if price is None else Cost(price, "USD", "session")
    turn.usage = Usage("turn", into, as_count(tokens.get("output_tokens")), cost)
    turn.stop_reason = as_text(line.get("stop_reason")) or None
    if (subtype := as_text(line.get("subtype"))) in _CUT:
        turn.stop_reason = subtype
    elif line.get("is_error"):
        errors = "; ".join(filter(None, map(as_text, as_list(line.get("errors")))))
        code = _by_status(line.get("api_error_status"))
        if turn.resumes and not as_count(line.get("num_turns")):
            code = AgentErrorCode.SESSION_UNKNOWN
        turn.fail(errors or line.get("result"), code)
    turn.final = as_text(line.get("result")) or None
    turn.is_complete = True


# --- Codex ----------------------------------------------------------------------------------------


def _codex(turn: CliTurn, line: JsonObject) -> Iterator[Chunk]:
    kind, item = as_text(line.get("type")), as_object(line.get("item"))
    if kind == "thread.started":
        turn.session = as_text(line.get("thread_id"))
    elif kind.startswith("item."):
        yield from _codex_item(turn, kind, item)
    elif kind == "turn.completed":
        tokens = as_object(line.get("usage"))
        into, out = as_count(tokens.get("input_tokens")), as_count(tokens.get("output_tokens"))
        turn.usage = Usage("session", into, out)
        turn.is_complete = True
    elif kind == "turn.failed":
        turn.fail(as_object(line.get("error")).get("message"))
    elif kind == "error":  # it may go on after it
        yield Chunk(ChunkKind.NOTICE, as_text(line.get("message")), line)
    elif kind != "turn.started":
        yield _other(line)


def _codex_item(turn: CliTurn, when: str, item: JsonObject) -> Iterator[Chunk]:
    kind, id, text = as_text(item.get("type")), as_text(item.get("id")), as_text(item.get("text"))
    if kind in ("agent_message", "reasoning", "error", "todo_list"):
        if kind == "todo_list":
            yield Chunk(kind, data=item)
        elif when == "item.completed":
            yield (
                turn.add_text(id, text)
                if kind == "agent_message"
                else Chunk(ChunkKind.THOUGHT, text)
                if kind == "reasoning"
                else Chunk(ChunkKind.NOTICE, as_text(item.get("message")), item)
            )
    elif when == "item.completed":
        turn.add_call(id, kind, item)
        yield _ended(id, item)
    else:
        yield turn.add_call(id, kind, item)


_CLAUDE = ("-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages")
_CODEX = ("exec", "--json", "--skip-git-repo-check")

DIALECTS = MappingProxyType(
    {
        "claude": CliDialect(
            "claude",
            "Claude Code",
            start=(*_CLAUDE, "--session-id", "{}"),
            resume=(*_CLAUDE, "--resume", "{}"),
            toolless=("--tools", "", "--strict-mcp-config"),
            read=_claude,
        ),
        "codex": CliDialect(
            "codex",
            "Codex",
            start=(*_CODEX, "-"),
            resume=("exec", "resume", "{}", "--json", "--skip-git-repo-check", "-"),
            toolless=None,
            read=_codex,
        ),
    }
)
"""Each command line by the word that people choose it with."""


VERSION_LIMIT = 10.0  # seconds for `--version`: the slowest takes two, on a cold disk more
END_LIMIT = 5.0  # seconds to be gone after its last word: it saves its session


class CliAgent(LocalAgent):
    """An agent that is run by its command line, once a turn.

    Args:
        dialect: Its command line.
        folder: Parent of the folders of sessions without a workspace; the caller removes it.
        tap: Observes its pipes.
    """

    def __init__(self, dialect: CliDialect, folder: str, tap: Tap = unobserved_stream) -> None:
        super().__init__(dialect.title, folder)
        self._dialect = dialect
        self._tap = tap

    async def available(self) -> Availability:
        """Find its program on the PATH and ask for its version."""
        program, title = self._dialect.program, self._dialect.title
        if shutil.which(program) is None:
            return Availability(f"there is no program {program} on the PATH: install {title}")
        try:
            with anyio.fail_after(VERSION_LIMIT):
                ran = await anyio.run_process([program, "--version"], check=False)
        except TimeoutError:
            return Availability(f"{program} --version took more than {VERSION_LIMIT:g} s")
        except OSError as problem:
            return Availability(f"{program} cannot be started: {problem}")
        version = label(ran.stdout.decode(errors="replace").strip().split("\n")[0], 80)
        if ran.returncode:
            return Availability(f"{program} --version ended with the exit code {ran.returncode}")
        return Availability(version=version)

    def find_obstacle(self, *, images: bool = False) -> str:
        """Look for its program; it takes no images."""
        if images:
            return "a command line takes no images"
        program = self._dialect.program
        return "" if shutil.which(program) else f"there is no program {program} here"

    async def start(self, options: StartOptions) -> str:
        """Begin a session; no process runs yet."""
        self._dialect.command(options.session_id, resumes=False, tools=options.cli_config.tools)
        return await super().start(options)

    async def _run_program(
        self,
        session: Session,
        messages: Sequence[AgentMessage],
        on_chunk: OnChunk,
        *,
        resumes: bool,
    ) -> AgentResponse:
        if images_of(messages):
            words = f"{self.title} takes no images by its command line"
            raise AgentError(AgentErrorCode.NO_IMAGES, words)
        config = session.options.cli_config
        command = self._dialect.command(session.id, resumes=resumes, tools=config.tools)
        turn = CliTurn(self._dialect, session.id, resumes=resumes)
        try:
            env = {**child_environment(), **config.environment}
            async with spawn(command, env=env, cwd=session.folder) as child:
                await self._talk(child, self.format_messages(messages), turn, on_chunk)
        except OSError as problem:
            words = f"{self._dialect.program} cannot be started: {problem}"
            raise AgentError(AgentErrorCode.NOT_AVAILABLE, words) from None
        response = turn.finish(child.process.returncode or 0, "\n".join(child.last_words))
        session.id = turn.session
        return response

    async def _talk(self, child: Child, prompt: bytes, turn: CliTurn, on_chunk: OnChunk) -> None:
        """Send the prompt and read the output until the process ends or its time is over."""
        async with anyio.create_task_group() as tasks:
            source, sink = self._tap(child.stdout, child.stdin)
            tasks.start_soon(_send_prompt, sink, prompt)
            await _read_output(source, turn, on_chunk)
            if turn.failure is None:
                with anyio.move_on_after(END_LIMIT):
                    await child.process.wait()
                    await child.heard.wait()
            tasks.cancel_scope.cancel()


async def _read_output(source: ByteReader, turn: CliTurn, on_chunk: OnChunk) -> None:
    """Read its output. After the last line stop soon: programs that it started may keep stdout
    open.
    """
    with anyio.CancelScope() as reading:
        while turn.failure is None and (data := await source.receive()):
            for chunk in turn.feed(data):
                on_chunk(chunk)
            if turn.is_complete:
                reading.deadline = min(reading.deadline, anyio.current_time() + END_LIMIT)


async def _send_prompt(sink: ByteWriter, prompt: bytes) -> None:
    with (
        contextlib.suppress(OSError),
        contextlib.closing(sink),
    ):  # it has ended: its reader says how
        await write_all(sink, prompt)
