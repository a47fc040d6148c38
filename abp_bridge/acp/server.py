"""The ACP agent: handshake, sessions, and dispatch. Each session is a bridge of its own."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio

from abp_bridge import VERSION
from abp_bridge.core.json_value import JsonObject, JsonValue, as_object
from abp_bridge.jsonrpc.connection import respond_internal_error
from abp_bridge.jsonrpc.protocol import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    Id,
    Notification,
    Request,
    RpcError,
    is_id,
)
from abp_bridge.protocols.acp import v1 as acp

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from abp_bridge.acp.session import AcpSession
    from abp_bridge.jsonrpc.connection import JsonRpcConnection

MAX_SESSIONS = 100  # of one client: each may start its apps

_INFO = {"name": "abp-bridge", "title": "ABP bridge", "version": VERSION}

# Some clients do not go on without a mode to set.
_MODES: JsonObject = {
    "currentModeId": "apps",
    "availableModes": [{"id": "apps", "name": "Apps", "description": "Call the apps"}],
}


@dataclass(frozen=True, slots=True)
class _Turn:
    """A running prompt."""

    session: AcpSession
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    ended: anyio.Event = field(default_factory=anyio.Event)

    def cancel(self) -> None:
        self.session.cancel()
        self.scope.cancel()


class AcpServer:
    """One client's connection.

    Args:
        connection: The client's connection.
        make_session: Makes a session of its id and the parameters of the client's `initialize`.
        tasks: Runs prompts.
    """

    def __init__(
        self,
        connection: JsonRpcConnection,
        make_session: Callable[[str, JsonObject], AcpSession],
        tasks: TaskGroup,
    ) -> None:
        self._connection = connection
        self._make_session = make_session
        self._tasks = tasks
        self._client: JsonObject = {}
        self._resumes = False  # it has asked for a session of before
        self._sessions: dict[str, AcpSession] = {}
        self._running: dict[Id, _Turn] = {}  # by the prompt's id
        self._prompting: dict[str, _Turn] = {}  # by the session's
        self._serial = 0

    def on_message(self, message: Request | Notification) -> None:
        """Take one message. Never waits: a prompt runs as a task."""
        params = as_object(message.params)
        if isinstance(message, Notification):
            if (note := _NOTIFICATIONS.get(message.method)) is not None:
                note(self, params)
            return
        try:
            if (later := _LATER.get(message.method)) is not None:
                later(self, message.id, params)
            elif (answer := _METHODS.get(message.method)) is not None:
                result = answer(self, params)
                self._connection.respond(message.id, result)
                if message.method in _GREETED:
                    self._session({**params, **result}).send_commands()
            else:
                raise RpcError(METHOD_NOT_FOUND, f"Method not found: {message.method[:100]}")
        except RpcError as problem:
            self._connection.respond_error(message.id, problem.code, str(problem), problem.data)
        except Exception:  # a bug of ours, logged there: the client gets its answer all the same
            respond_internal_error(self._connection, message.id, message.method)

    def _initialize(self, params: JsonObject) -> JsonObject:
        self._client = params
        return {
            "protocolVersion": acp.VERSION,
            "agentCapabilities": {
                "loadSession": False,
                "promptCapabilities": {},
                "sessionCapabilities": {"list": {}, "resume": {}, "close": {}},
            },
            "agentInfo": _INFO,
            "authMethods": [],
        }

    def _new(self, params: JsonObject) -> JsonObject:
        if len(self._sessions) >= MAX_SESSIONS:
            raise RpcError(INVALID_REQUEST, f"{MAX_SESSIONS} sessions are open: close one first")
        if not isinstance(cwd := params.get("cwd"), str):
            raise RpcError(INVALID_PARAMS, "session/new needs a cwd")
        self._serial += 1
        id = f"abp-session-{os.getpid()}-{self._serial}"
        self._sessions[id] = session = self._make_session(id, self._client)
        session.cwd = cwd
        if self._resumes:
            session.on_return()
        return {"sessionId": id, "modes": _MODES}

    def _resume(self, params: JsonObject) -> JsonObject:
        """Resume a session of this process, whose apps are still connected.

        Another process's session is gone: ACP's error for it makes the client start a new one.
        """
        self._resumes = True
        try:
            self._session(params).on_return()
        except RpcError as problem:
            raise RpcError(acp.RESOURCE_NOT_FOUND, str(problem)) from None
        return {"modes": _MODES}

    def _set_mode(self, params: JsonObject) -> JsonObject:
        self._session(params)
        if params.get("modeId") != _MODES["currentModeId"]:
            raise RpcError(
                INVALID_PARAMS,
                f"there is only the mode {_MODES['currentModeId']!r}: apps do what they are"
                " asked to",
            )
        return {}

    def _list(self, params: JsonObject) -> JsonObject:
        wanted = params.get("cwd")
        return {
            "sessions": [
                {"sessionId": id, "cwd": session.cwd}
                for id, session in self._sessions.items()
                if wanted in (None, session.cwd)
            ]
        }

    def _close(self, id: Id, params: JsonObject) -> None:
        session = self._session(params)
        self._cancel(params)
        del self._sessions[session.session_id]
        self._tasks.start_soon(self._end, id, session)

    async def _end(self, id: Id, session: AcpSession) -> None:
        """End the session after its notifications are sent."""
        if (turn := self._prompting.get(session.session_id)) is not None:
            await turn.ended.wait()
        await session.close()
        self._connection.respond(id, {})

    def _session(self, params: JsonObject) -> AcpSession:
        wanted = params.get("sessionId")
        session = self._sessions.get(wanted) if isinstance(wanted, str) else None
        if session is None:
            raise RpcError(
                INVALID_PARAMS,
                "there is no such session here (they end with their process): session/new"
                " makes one",
            )
        return session

    def _prompt(self, id: Id, params: JsonObject) -> None:
        session = self._session(params)
        if session.session_id in self._prompting:
            raise RpcError(
                INVALID_REQUEST,
                "a prompt of this session is running: wait for it, or cancel it with"
                " session/cancel",
            )
        if not isinstance(params.get("prompt"), list):
            raise RpcError(INVALID_PARAMS, "a prompt is a list of content blocks")
        self._running[id] = self._prompting[session.session_id] = turn = _Turn(session)
        self._tasks.start_soon(self._run, id, params["prompt"], turn)

    async def _run(self, id: Id, prompt: JsonValue, turn: _Turn) -> None:
        stop = "cancelled"
        with turn.scope:
            try:
                await turn.session.run_turn(prompt)
                stop = "end_turn"
            except Exception:  # a bug of ours, logged below: the turn ends all the same
                stop = "error"
                respond_internal_error(self._connection, id, "session/prompt")
        del self._running[id]
        del self._prompting[turn.session.session_id]
        if self._connection.is_open(id):
            ended = {"stopReason": stop}
            self._connection.respond(id, ended, on_sent=turn.session.on_turn_sent)
        turn.ended.set()

    def _cancel(self, params: JsonObject) -> None:
        wanted = params.get("sessionId")
        turn = self._prompting.get(wanted) if isinstance(wanted, str) else None
        if turn is not None:
            turn.cancel()
        elif isinstance(wanted, str) and wanted in self._sessions:
            self._sessions[wanted].cancel()  # it may stand at a question between two prompts

    def _cancel_request(self, params: JsonObject) -> None:
        id = params.get("requestId")
        turn = self._running.get(id) if is_id(id) and self._connection.is_open(id) else None
        if turn is not None:
            turn.cancel()


_METHODS: dict[str, Callable[[AcpServer, JsonObject], JsonObject]] = {
    "initialize": AcpServer._initialize,
    "session/new": AcpServer._new,
    "session/list": AcpServer._list,
    "session/resume": AcpServer._resume,
    "session/set_mode": AcpServer._set_mode,
}

# The client hears the commands after these.
_GREETED = ("session/new", "session/resume")

# Answered when they are done.
_LATER: dict[str, Callable[[AcpServer, Id, JsonObject], None]] = {
    "session/prompt": AcpServer._prompt,
    "session/close": AcpServer._close,
}

_NOTIFICATIONS: dict[str, Callable[[AcpServer, JsonObject], None]] = {
    "session/cancel": AcpServer._cancel,
    acp.CANCEL_REQUEST: AcpServer._cancel_request,
}
