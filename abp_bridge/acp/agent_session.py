"""A session with an ACP agent through the official SDK's connection.

The SDK numbers requests and matches responses. Incoming messages bypass its types, which drop
newer updates and members and lose a turn for an unknown stop reason. Its import takes 0.5 s.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import NoneType
from typing import Any, Protocol

import anyio
from acp import PROTOCOL_VERSION, RequestError
from acp.connection import Connection
from acp.meta import AGENT_METHODS
from acp.schema import (
    CancelNotification,
    ClientCapabilities,
    ElicitationCapabilities,
    ElicitationFormCapabilities,
    ElicitationUrlCapabilities,
    FileSystemCapabilities,
    ImageContentBlock,
    Implementation,
    InitializeRequest,
    LoadSessionRequest,
    NewSessionRequest,
    PromptRequest,
    ResumeSessionRequest,
    SetSessionConfigOptionSelectRequest,
    SetSessionModeRequest,
    TextContentBlock,
)
from anyio.streams.memory import MemoryObjectSendStream
from pydantic import BaseModel

from abp_bridge import VERSION
from abp_bridge.core.json_value import JsonObject, JsonValue, as_object, as_text
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.jsonrpc.connection import ByteReader, ByteWriter, ConnectionClosedError, RemoteError
from abp_bridge.jsonrpc.program_lines import (
    DUPLICATE_ID,
    FAREWELL,
    MAX_WAITING,
    NO_MESSAGE,
    MessageReader,
    MessageWriter,
    ProgramListener,
    as_error,
)
from abp_bridge.jsonrpc.protocol import Id, is_id
from abp_bridge.protocols.acp.v1 import CANCEL_REQUEST, REQUEST_CANCELLED

logger = logging.getLogger(__name__)

NAME = "abp-bridge"
# A client's files and terminals are not offered: the agent has its own, under its own permissions.
NO_FILES = FileSystemCapabilities(read_text_file=False, write_text_file=False)
OFFERED = ClientCapabilities(
    fs=NO_FILES,
    terminal=False,
    elicitation=ElicitationCapabilities(
        form=ElicitationFormCapabilities(), url=ElicitationUrlCapabilities()
    ),
)
NOBODY = ClientCapabilities(fs=NO_FILES, terminal=False)


class AgentListener(ProgramListener, Protocol):
    """Receives the agent's requests and notifications."""

    async def on_request(self, method: str, params: JsonObject) -> JsonObject:
        """Answer a request of the agent; RemoteError is sent as its error."""
        ...


class AgentSession:
    """One open connection with at most one conversation; `id` is empty until it starts."""

    def __init__(self, connection: Connection) -> None:
        self.id = ""
        self._connection = connection

    async def initialize(self, *, elicits: bool = True) -> JsonObject:
        """Initialize and return the agent's result; `elicits` declares forms and URLs.

        Raises RemoteError, ConnectionClosedError, RemoteProtocolError (another version).
        """
        result = await self._request(
            "initialize",
            InitializeRequest(
                protocol_version=PROTOCOL_VERSION,
                client_capabilities=OFFERED if elicits else NOBODY,
                client_info=Implementation(name=NAME, version=VERSION),
            ),
        )
        if (version := result.get("protocolVersion")) != PROTOCOL_VERSION:
            raise RemoteProtocolError(
                f"it speaks version {version!r:.20} of ACP, and this bridge {PROTOCOL_VERSION}"
            )
        return result

    async def start_conversation(self, cwd: str, directories: Sequence[str] = ()) -> JsonObject:
        """Start the conversation in folder `cwd`, an absolute path; return the agent's result.

        Raises RemoteError (-32000: the user must sign in), ConnectionClosedError,
        RemoteProtocolError.
        """
        request = NewSessionRequest(
            cwd=cwd, additional_directories=list(directories) or None, mcp_servers=[]
        )
        result = await self._request("session_new", request)
        self.id = as_text(result.get("sessionId"))
        if not self.id:
            raise RemoteProtocolError("it answered session/new without a sessionId")
        return result

    async def load(self, id: str, cwd: str) -> JsonObject:
        """Load conversation `id`; its updates are sent again."""
        self.id = id
        request = LoadSessionRequest(cwd=cwd, session_id=id, mcp_servers=[])
        return await self._request("session_load", request)

    async def resume(self, id: str, cwd: str) -> JsonObject:
        """Resume conversation `id` without its updates, for agents that declare it."""
        self.id = id
        request = ResumeSessionRequest(cwd=cwd, session_id=id, mcp_servers=[])
        return await self._request("session_resume", request)

    async def set_mode(self, mode: str, option: str = "") -> None:
        """Set the mode, or the value `mode` of the config option `option`."""
        if option:
            chosen = SetSessionConfigOptionSelectRequest(
                session_id=self.id, config_id=option, value=mode
            )
            await self._request("session_set_config_option", chosen)
        else:
            await self._request(
                "session_set_mode", SetSessionModeRequest(session_id=self.id, mode_id=mode)
            )

    async def prompt(self, words: str, images: Sequence[tuple[str, str]] = ()) -> JsonObject:
        """Prompt the agent, with images as (base64, MIME type); return the result of the turn."""
        text = TextContentBlock(type="text", text=words)
        shown = [
            ImageContentBlock(type="image", data=data, mime_type=kind) for data, kind in images
        ]
        return await self._request(
            "session_prompt", PromptRequest(prompt=[text, *shown], session_id=self.id)
        )

    async def cancel_turn(self) -> None:
        """Cancel the turn. The listener cancels the agent's own requests."""
        try:
            params = _dump(CancelNotification(session_id=self.id))
            await self._connection.send_notification(AGENT_METHODS["session_cancel"], params)
        except ConnectionError:
            logger.debug("the agent is gone, and hears of no cancel")

    async def _request(self, method: str, params: BaseModel) -> JsonObject:
        try:
            result = await self._connection.send_request(AGENT_METHODS[method], _dump(params))
        except RequestError as problem:
            error = {"code": problem.code, "message": str(problem), "data": problem.data}
            raise RemoteError(error, 0.0) from None
        except ConnectionError:
            raise ConnectionClosedError("the agent is gone") from None
        return as_object(result)


def _dump(params: BaseModel) -> dict[str, Any]:
    return params.model_dump(by_alias=True, mode="json", exclude_none=True)


@asynccontextmanager
async def open_session(
    source: ByteReader, sink: ByteWriter, listener: AgentListener
) -> AsyncIterator[AgentSession]:
    """Open a session with the agent behind these streams; pending answers are sent at the end."""
    outward, outward_receive = anyio.create_memory_object_stream[dict[str, Any]](MAX_WAITING)
    writer = MessageWriter(sink)
    messages = _Messages(MessageReader(source, listener.on_malformed), outward, listener)
    connection = Connection(messages.answer_request, messages)
    # Whoever is cancelled still tells the agent to end its turn.
    writing = anyio.CancelScope(shield=True)

    async def write_messages() -> None:
        with writing:
            await writer.carry(outward_receive, _without_nothing)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write_messages)
        try:
            yield AgentSession(connection)
        finally:
            with anyio.move_on_after(FAREWELL, shield=True):
                await messages.settled()
                outward.close()
                await writer.written.wait()
            with anyio.move_on_after(FAREWELL, shield=True):
                await connection.close()
            writing.cancel()


def _without_nothing(message: dict[str, Any]) -> JsonObject:
    """Remove a null `data` from the SDK's error."""
    error = as_object(message.get("error"))
    if "data" not in error or error["data"] is not None:
        return message
    return {**message, "error": {name: each for name, each in error.items() if name != "data"}}


class _Messages:
    """The SDK's transport: gives it requests and responses, and the rest to the listener."""

    def __init__(
        self,
        reader: MessageReader,
        outward: MemoryObjectSendStream[dict[str, Any]],
        listener: AgentListener,
    ) -> None:
        self._reader = reader
        self._outward = outward
        self._listener = listener
        self._open: dict[Id, anyio.CancelScope] = {}
        self._idle = anyio.Event()

    async def send(self, message: dict[str, Any]) -> None:
        """Queue a message for the agent. Raises ConnectionError."""
        try:
            await self._outward.send(message)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            raise ConnectionError("the agent reads no more") from None

    async def receive(self) -> dict[str, Any] | None:
        """Return the next request or response; None at the end."""
        try:
            while (message := await self._reader.receive()) is not None:
                if (given := self._take(message)) is not None:
                    return given
        except Exception:  # whatever it is: the SDK would read no more, and nobody would hear of it
            logger.exception("what the agent says is read no more")
        self._listener.on_end()
        return None

    async def close(self) -> None:
        self._outward.close()

    def _take(self, message: dict[str, JsonValue]) -> dict[str, Any] | None:
        method, id = message.get("method"), message.get("id")
        params = as_object(message.get("params"))
        if isinstance(method, str) and "id" not in message:
            self._on_notification(method, params)
        elif isinstance(method, str) and is_id(id):
            if id in self._open:
                self._listener.on_malformed(DUPLICATE_ID)
                return None
            self._open[id] = anyio.CancelScope()  # it may be taken back before the SDK has begun
            return {
                **message,
                "params": {"id": id, "params": params},
            }  # `answer_request` wants both
        elif "method" not in message and is_id(id) and _is_answer(message):
            return message
        else:
            self._listener.on_malformed(NO_MESSAGE)
            return as_error(message, "agent")
        return None

    def _on_notification(self, method: str, params: JsonObject) -> None:
        if method != CANCEL_REQUEST:
            self._listener.on_notification(method, params)
        elif is_id(id := params.get("requestId")) and id in self._open:
            self._open[id].cancel()

    async def answer_request(self, method: str, params: Any, _is_notification: bool) -> JsonObject:
        """Answer a request of the agent (the SDK's handler). Raises RequestError."""
        try:
            with self._open[params["id"]]:
                return await self._listener.on_request(method, params["params"])
        except RemoteError as problem:
            words = as_text(problem.error.get("message"))
            raise RequestError(problem.code, words, problem.data) from None
        finally:
            del self._open[params["id"]]
            self._idle.set()
            self._idle = anyio.Event()
        raise RequestError(REQUEST_CANCELLED, "the request was taken back")

    async def settled(self) -> None:
        """Wait until no request of the agent is pending."""
        while self._open:
            await self._idle.wait()


def _is_answer(message: JsonObject) -> bool:
    """Whether it has one object or null as result, or one error."""
    if "error" not in message:
        return isinstance(message.get("result", ()), (dict, NoneType))
    error = as_object(message["error"])
    code = error.get("code")
    whole = isinstance(code, int) and isinstance(error.get("message"), str)
    return whole and "result" not in message
