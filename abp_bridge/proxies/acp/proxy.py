"""Between an editor and its agent: every line passes byte for byte, in order, and no faster than
its reader reads.

The proxy looks only at the lines it has business with, and decides that from their bytes: which
prompts run, for it asks the editor's person only inside of one; the sessions that are given the
apps' tools; and, for an editor that shows no forms, the agent's own questions, which it answers
itself after asking by buttons. Its own requests have ids with a prefix that is its secret: what
answers them goes no further, however late it is.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import anyio

from abp_bridge.core import sanitize
from abp_bridge.core.errors import RemoteProtocolError
from abp_bridge.core.json_text import is_deeper
from abp_bridge.core.menu import obstacle
from abp_bridge.core.question import AnsweredBy, Outcome, Question
from abp_bridge.hosts.acp.client_surfaces import ClientSurfaces
from abp_bridge.hosts.acp.turns import OUTSIDE
from abp_bridge.log import whisper
from abp_bridge.protocols import mcp
from abp_bridge.protocols.acp import v1 as acp
from abp_bridge.proxies.acp import byte_edit
from abp_bridge.proxies.acp.client_session import ClientSession, Elicits, ProxiedHost
from abp_bridge.proxies.acp.multiplex import InjectedConnection, SharedWriter
from abp_bridge.rpc.errors import respond_internal_error
from abp_bridge.rpc.protocol import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    MAX_DEPTH,
    Id,
    JsonRpcProtocol,
    Notification,
    Request,
    is_id,
)

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from abp_bridge.interfaces.host import Host
    from abp_bridge.interfaces.surface import Page
    from abp_bridge.rpc.connection import ByteReader, ByteWriter
    from abp_bridge.rpc.streams import StreamReader

Json = Any
Params = Mapping[str, Json]

# seconds an agent may go on speaking when its stdin is closed, or go without reading when its
# editor has gone
DRAIN = 1.0
MAX_OWN = 100  # questions of the agent's own that are open at once

ELICIT = "elicitation/create"
NO_ANSWER = {"code": INVALID_REQUEST, "message": "a response that says nothing, or cannot be read"}

# The two places where a line is changed.
FORMS = ("params", "clientCapabilities", "elicitation", "form")
SERVERS = ("params", "mcpServers")


class EndpointRegistry(Protocol):
    """Who makes the MCP servers that sessions are given."""

    def server_entry(self, session: ClientSession, taken: list[Json]) -> Json: ...

    def forget(self, session: str) -> None: ...


class AcpProxy:
    """One editor and one agent, each as (what it says, what it hears).

    `asking(host)` makes who asks the agent's own questions of one session. `injected` is None
    without apps. `command` names the agent until it does so itself.
    """

    def __init__(
        self,
        editor: tuple[StreamReader, ByteWriter],
        agent: tuple[ByteReader, ByteWriter],
        *,
        prefix: str,
        command: str,
        asking: Callable[[Host], Elicits],
        page: Page,
        injected: EndpointRegistry | None,
    ) -> None:
        self._from_editor, to_editor = editor
        self._from_agent, to_agent = agent
        self._editor_outlet, self._agent_outlet = SharedWriter(to_editor), SharedWriter(to_agent)
        # What is taken aside was held already: no line is too long here.
        peers = [JsonRpcProtocol(prefix, max_line=4 * byte_edit.LONGEST) for _ in range(2)]
        self._editor = InjectedConnection(
            peers[0],
            self._editor_outlet,
            on_message=lambda message: None,
            withdraw=acp.encode_cancel,
        )
        self._agent = InjectedConnection(peers[1], self._agent_outlet, on_message=self._asked)
        self._prefix = prefix
        self._answers_us = re.compile(rb'"id"\s*:\s*"(%b\d+)"' % re.escape(prefix.encode()))
        self._agent_name = command
        self._asking = asking
        self._page = page
        self._injected = injected
        self._tasks: TaskGroup
        self._draining = anyio.CancelScope()
        self._ended = ""
        self._serial = 0
        self._client: Params = {}
        self._downgrades = False  # the agent's own forms are ours to ask
        self._shows_urls = False
        self._sessions: dict[str, ClientSession] = {}
        self._prompts: dict[Id, ClientSession] = {}
        self._awaited: dict[
            Id, Callable[[Params], Awaitable[None]]
        ] = {}  # requests of the editor, and who looks at their response
        self._own: dict[
            Id, anyio.CancelScope
        ] = {}  # the agent's own questions that are ours to ask
        self._editor_marks: tuple[bytes, ...] = (b'"initialize"',)

    async def run(self) -> str:
        """Carry lines until one side ends: "editor" or "agent", whichever was first.

        What the agent still says after the editor is passed on.
        """
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            tasks.start_soon(self._editor.link.run)
            tasks.start_soon(self._agent.link.run)
            tasks.start_soon(self._carry_to_agent)
            with self._draining:
                await self._carry_to_editor()
            self._ended = self._ended or "agent"
            tasks.cancel_scope.cancel()
        return self._ended

    # --- the two directions ---

    async def _carry_to_agent(self) -> None:
        try:
            with anyio.CancelScope() as carrying:
                self._tasks.start_soon(self._watch, carrying)
                await _carry(
                    self._from_editor,
                    self._agent_outlet,
                    self._concerns_editor,
                    self._look_at_editor,
                )
            self._ended = self._ended or "editor"
        except OSError:
            self._ended = self._ended or "agent"
        self._editor.close()
        self._agent_outlet.end()
        self._draining.deadline = anyio.current_time() + DRAIN

    async def _watch(self, carrying: anyio.CancelScope) -> None:
        """An editor's end is not heard while its agent reads nothing: then what it still said is
        lost, and it ends all the same.
        """
        await self._from_editor.wait_closed()
        passed = -1
        while passed != self._agent_outlet.passed:
            passed = self._agent_outlet.passed
            await anyio.sleep(DRAIN)
        carrying.cancel()

    async def _carry_to_editor(self) -> None:
        try:
            await _carry(
                self._from_agent,
                self._editor_outlet,
                self._concerns_agent,
                self._look_at_agent,
                self._take_down,
            )
        except OSError:
            self._ended = self._ended or "editor"

    async def _take_down(self) -> None:
        """The agent has gone: what is still asked goes too."""
        self._ended = self._ended or "agent"
        for prompt, session in list(self._prompts.items()):
            await session.answered(prompt)

    # --- lines from the editor ---

    def _concerns_editor(self, data: bytes) -> bool:
        return any(mark in data for mark in self._editor_marks)

    async def _look_at_editor(self, line: bytes) -> bytes:
        """A line that may concern us -> what goes to the agent."""
        message = byte_edit.read(line)
        if message is None and (broken := self._answers_us.search(line)) is not None:
            message = {"id": broken[1].decode()}
        if not isinstance(message, dict):
            return line
        method, id = message.get("method"), message.get("id")
        if method is None and isinstance(id, str) and id.startswith(self._prefix):
            said = {
                word: message[word]
                for word in ("result", "error")
                if word in message and not is_deeper(message, MAX_DEPTH)
            }
            await self._editor.take({"id": id, **(said or {"error": NO_ANSWER})})
            return b""
        look = _EDITOR.get(method) if isinstance(method, str) else None
        return line if look is None else look(self, line, id, _object(message.get("params")))

    def _initialize(self, line: bytes, id: Json, params: Params) -> bytes:
        self._client = params
        capabilities = acp.decode_capabilities(params.get("clientCapabilities"))
        self._downgrades = not capabilities.form and params.get("protocolVersion") == acp.VERSION
        self._shows_urls = capabilities.url
        self._await(id, self._initialized)
        if self._injected is None and not self._downgrades:
            self._editor_marks = ()  # nothing of ours is to be found in what passes
            return line
        self._editor_marks = (
            b'"initialize"',
            b'"session/',
            b'"session\\/',
            b"cancel_request",
            self._prefix.encode(),
        )
        return byte_edit.put(line, FORMS, {}) if self._downgrades else line

    async def _initialized(self, response: Params) -> None:
        result = _object(response.get("result"))
        info = _object(result.get("agentInfo"))
        names = (
            sanitize.label(name)
            for name in (info.get("title"), info.get("name"))
            if isinstance(name, str)
        )
        self._agent_name = next(filter(None, names), self._agent_name)
        if (version := result.get("protocolVersion", acp.VERSION)) != acp.VERSION:
            whisper(
                f"the editor and the agent speak version {sanitize.label(version, 20)} of ACP:"
                " their lines pass, and nothing else is done"
            )
            self._editor_marks, self._injected, self._downgrades = (), None, False

    def _new(self, line: bytes, id: Json, params: Params) -> bytes:
        """`session/new` and `session/fork`: the agent says later which session it is."""
        if self._injected is None:
            return line
        session = self._new_session()

        async def opened(response: Params) -> None:
            if isinstance(name := _object(response.get("result")).get("sessionId"), str):
                session.id = name
                session.adopt(self._sessions.setdefault(name, session))

        self._await(id, opened)
        return byte_edit.add(line, SERVERS, self._injected.server_entry(session, _names(params)))

    def _reopen(self, line: bytes, id: Json, params: Params) -> bytes:
        """`session/load` and `session/resume`."""
        session = self._session(params.get("sessionId"))
        if session is None or self._injected is None:
            return line
        return byte_edit.add(line, SERVERS, self._injected.server_entry(session, _names(params)))

    def _prompt(self, line: bytes, id: Json, params: Params) -> bytes:
        session = self._session(params.get("sessionId"))
        if session is None or not is_id(id):
            return line
        session.prompted(id)
        self._prompts[id] = session

        async def answered(response: Params) -> None:
            del self._prompts[id]
            await session.answered(id)

        self._await(id, answered)
        return line

    def _cancel(self, line: bytes, id: Json, params: Params) -> bytes:
        if (session := self._known(params.get("sessionId"))) is not None:
            session.cancelled()
        return line

    def _cancel_request(self, line: bytes, id: Json, params: Params) -> bytes:
        if (session := self._prompted(params.get("requestId"))) is not None:
            session.cancelled()
        return line

    def _close(self, line: bytes, id: Json, params: Params) -> bytes:
        """`session/close` and `session/delete`: nothing is asked any more, and nothing remembered
        if the agent agrees.
        """
        if (session := self._known(params.get("sessionId"))) is not None:
            session.cancelled("the user closed the session")

            async def closed(response: Params) -> None:
                if "error" not in response:
                    self._forget(session.id)

            self._await(id, closed)
        return line

    def _await(self, id: Json, then: Callable[[Params], Awaitable[None]]) -> None:
        """Run `then` on the response to this request, before it passes on."""
        if is_id(id):
            self._awaited[id] = then

    # --- lines from the agent ---

    def _concerns_agent(self, data: bytes) -> bool:
        if self._downgrades and (
            b'"elicitation' in data or (self._own and b"cancel_request" in data)
        ):
            return True
        return (
            bool(self._awaited) and b'"id"' in data and (b'"result"' in data or b'"error"' in data)
        )

    async def _look_at_agent(self, line: bytes) -> bytes:
        """A line that may concern us -> what goes to the editor."""
        message = byte_edit.read(line)
        if not isinstance(message, dict):
            return line
        method, id, params = (
            message.get("method"),
            message.get("id"),
            _object(message.get("params")),
        )
        if method is None:
            if is_id(id) and (then := self._awaited.pop(id, None)) is not None:
                await then(message)
            return line
        if (
            method == ELICIT
            and is_id(id)
            and self._is_ours(params)
            and not is_deeper(params, MAX_DEPTH - 1)
        ):
            if len(self._own) < MAX_OWN:
                self._own.setdefault(id, anyio.CancelScope())
            await self._agent.take({"id": id, "method": method, "params": params})
        elif (
            method == acp.WITHDRAW
            and "id" not in message
            and is_id(own := params.get("requestId"))
            and own in self._own
        ):
            await self._agent.take({"method": method, "params": params})
        else:
            return line
        return b""

    def _is_ours(self, params: Params) -> bool:
        """Whether the editor cannot show this itself.

        Modes that nobody here knows are for the editor to refuse.
        """
        return self._downgrades and (
            params.get("mode", "form") == "form"
            or (params.get("mode") == "url" and not self._shows_urls)
        )

    # --- the agent's own questions ---

    def _asked(self, message: Request | Notification) -> None:
        params = _object(message.params)
        scope = self._own.get(message.id if isinstance(message, Request) else params["requestId"])
        if isinstance(message, Notification):
            if scope is not None:  # it may have been answered meanwhile
                scope.cancel()
        elif scope is None:
            self._agent.link.respond_error(
                message.id, INVALID_REQUEST, f"{MAX_OWN} questions of this agent are open already"
            )
        else:
            self._tasks.start_soon(self._answer, message.id, params, scope)

    async def _answer(self, id: Id, params: Params, scope: anyio.CancelScope) -> None:
        link = self._agent.link
        with scope:
            try:
                result = await self._ask(params)
            except RemoteProtocolError as problem:
                link.respond_error(id, INVALID_PARAMS, str(problem))
            except Exception:
                respond_internal_error(link, id, ELICIT)
            else:
                link.respond(id, result)
        del self._own[id]
        if scope.cancelled_caught:
            link.respond_error(id, acp.REQUEST_CANCELLED, "the question was cancelled")

    async def _ask(self, params: Params) -> Json:
        """Ask what the agent asks, by buttons: the result it gets.

        What is no answer is no accept, and says why.
        """
        if params.get("mode") == "url":
            return _cancel("the editor shows no addresses")
        session = self._session_of(params)
        if session is None:
            return _cancel(OUTSIDE)
        self._serial += 1
        question, left_out = _with_buttons(
            mcp.decode_form(params, id=f"own-{self._serial}", origin=self._agent_name)
        )
        session.asks = session.asks or self._asking(ProxiedHost(session))
        answer = await session.asks.ask(question)
        if (
            answer.answered_by is AnsweredBy.HOST_POLICY
        ):  # an agent goes by what its user chose, and looks no further
            answer = replace(answer, outcome=Outcome.CANCELLED)
        account = {
            "answeredBy": answer.answered_by.value,
            "route": answer.route,
            "reason": answer.reason,
            "notAsked": left_out,
        }
        meta = {"_meta": {"abp": {word: said for word, said in account.items() if said}}}
        return mcp.encode_reply(answer.outcome, answer.content) | meta

    # --- sessions ---

    def _session_of(self, params: Params) -> ClientSession | None:
        """The session an elicitation belongs to: by name, or by the prompt it came from."""
        if (name := params.get("sessionId")) is not None:
            return self._known(name)
        return self._prompted(params.get("requestId"))

    def _prompted(self, request: Json) -> ClientSession | None:
        return self._prompts.get(request) if is_id(request) else None

    def _known(self, name: Json) -> ClientSession | None:
        return self._sessions.get(name) if isinstance(name, str) else None

    def _forget(self, name: str) -> None:
        self._sessions.pop(name, None)
        if self._injected is not None:
            self._injected.forget(name)

    def _session(self, name: Json) -> ClientSession | None:
        if not isinstance(name, str):
            return None
        if name not in self._sessions:
            self._sessions[name] = self._new_session()
            self._sessions[name].id = name
        return self._sessions[name]

    def _new_session(self) -> ClientSession:
        return ClientSession(
            ClientSurfaces(
                self._editor.link, self._client, "", self._page, cards=f"{self._prefix}ask-"
            )
        )


_EDITOR: dict[str, Callable[[AcpProxy, bytes, Json, Params], bytes]] = {
    "initialize": AcpProxy._initialize,
    "session/new": AcpProxy._new,
    "session/load": AcpProxy._reopen,
    "session/resume": AcpProxy._reopen,
    "session/fork": AcpProxy._new,
    "session/prompt": AcpProxy._prompt,
    "session/cancel": AcpProxy._cancel,
    "session/close": AcpProxy._close,
    "session/delete": AcpProxy._close,
    acp.WITHDRAW: AcpProxy._cancel_request,
}


async def _nothing() -> None:
    """Nothing is to be done before the last line."""


async def _carry(
    source: ByteReader,
    outlet: SharedWriter,
    concerns: Callable[[bytes], bool],
    look: Callable[[bytes], Awaitable[bytes]],
    at_end: Callable[[], Awaitable[None]] = _nothing,
) -> None:
    """Pass on what `source` says until it ends.

    Blocks of lines that concern nobody pass as they came; in others each line is looked at.

    `at_end` runs before what is left of a last line passes. Raises OSError when nobody reads any
    more.
    """
    cutter = byte_edit.Cutter()
    while data := await source.receive():
        for block, whole in cutter.cut(data):
            if not whole or not concerns(block):
                await outlet.forward(block)
                continue
            waiting: list[bytes] = []  # lines that concern nobody, up to one that does
            for line in (part + b"\n" for part in block.split(b"\n")[:-1]):
                if not concerns(line):
                    waiting.append(line)
                    continue
                await _forward(waiting, outlet)
                await _pass(line, outlet, concerns, look)
            await _forward(waiting, outlet)
    await at_end()
    if rest := cutter.rest():
        await _pass(rest, outlet, concerns, look)


async def _forward(waiting: list[bytes], outlet: SharedWriter) -> None:
    if waiting:
        await outlet.forward(b"".join(waiting))
        waiting.clear()


async def _pass(
    line: bytes,
    outlet: SharedWriter,
    concerns: Callable[[bytes], bool],
    look: Callable[[bytes], Awaitable[bytes]],
) -> None:
    if concerns(line):
        try:
            line = await look(line)
        except Exception as problem:  # whatever it is, the line is not ours to keep
            whisper(f"bug in the proxy: {problem!r}")
    if line:
        await outlet.forward(line)


def _with_buttons(question: Question) -> tuple[Question, list[str]]:
    """A question without the fields that may stay empty and that buttons cannot fill: (what is
    asked, the names of what is not).
    """
    left_out = [
        field
        for field in question.fields
        if not field.required and obstacle(replace(question, fields=(field,)))
    ]
    kept = tuple(field for field in question.fields if field not in left_out)
    if not kept or not left_out:
        return question, []
    titles = ", ".join(
        dict.fromkeys(field.title or sanitize.label(field.name) for field in left_out)
    )
    note = f"(Here there are only buttons. What stays empty: {titles})"
    return replace(question, fields=kept, note=note), [field.name for field in left_out]


def _names(params: Params) -> list[Json]:
    """Of the MCP servers that a session has already."""
    servers = params.get("mcpServers")
    return (
        [server.get("name") for server in servers if isinstance(server, dict)]
        if isinstance(servers, list)
        else []
    )


def _cancel(reason: str) -> dict[str, Json]:
    return {"action": "cancel", "_meta": {"abp": {"reason": reason}}}


def _object(value: Json) -> Params:
    return value if isinstance(value, dict) else {}
