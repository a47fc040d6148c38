"""The front of an ACP client connection (version 1): handshake, sessions, and the dispatch to them. Each session is a bridge of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import anyio

from abp_bridge import VERSION
from abp_bridge.wire.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, Id, Notification, Request
from abp_bridge.wire.stdio import whisper

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from abp_bridge.hosts.acp.session import AcpSession
    from abp_bridge.wire.link import Link

Json = Any
Params = Mapping[str, Json]

PROTOCOL = 1
MAX_SESSIONS = 100


class Refusal(Exception):
    """A request that gets a JSON-RPC error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def withdraw(id: Id, reason: str) -> tuple[str, Json]:
    """How a request of ours is taken back in ACP: see `wire.link.Link`."""
    return "$/cancel_request", {"requestId": id}


class AcpServer:
    """One connection. `begin(link, id, client)` makes a session; prompts run in `tasks`."""

    def __init__(self, begin: Callable[[Link, str, Params], AcpSession], tasks: TaskGroup) -> None:
        self.link: Link  # set once by whoever makes both
        self._begin = begin
        self._tasks = tasks
        self._client: Params = {}
        self._sessions: dict[str, AcpSession] = {}
        self._running: dict[Id, anyio.CancelScope] = {}
        self._prompting: dict[str, anyio.CancelScope] = {}
        self._serial = 0

    def on_message(self, message: Request | Notification) -> None:
        """Take one message. Never waits: a prompt runs as a task."""
        params = message.params if isinstance(message.params, dict) else {}
        if isinstance(message, Notification):
            if (note := _NOTIFICATIONS.get(message.method)) is not None:
                note(self, params)
            return
        try:
            if message.method == "session/prompt":
                self._prompt(message.id, params)
            elif (answer := _METHODS.get(message.method)) is not None:
                self.link.respond(message.id, answer(self, params))
                if message.method == "session/new":
                    self._newest().greet()
            else:
                raise Refusal(METHOD_NOT_FOUND, f"Method not found: {message.method[:100]}")
        except Refusal as problem:
            self.link.fail(message.id, problem.code, str(problem))

    def _initialize(self, params: Params) -> Json:
        self._client = params
        return {
            "protocolVersion": PROTOCOL,
            "agentCapabilities": {"loadSession": False, "promptCapabilities": {}, "sessionCapabilities": {"list": {}, "close": {}}},
            "agentInfo": {"name": "abp-bridge", "title": "ABP bridge", "version": VERSION},
            "authMethods": [],
        }

    def _new(self, params: Params) -> Json:
        if len(self._sessions) >= MAX_SESSIONS:
            raise Refusal(INVALID_REQUEST, f"{MAX_SESSIONS} sessions are open: close one first")
        self._serial += 1
        id = f"abp-session-{os.getpid()}-{self._serial}"
        self._sessions[id] = self._begin(self.link, id, self._client)
        self._sessions[id].cwd = str(params.get("cwd", ""))
        return {"sessionId": id}

    def _newest(self) -> AcpSession:
        return self._sessions[next(reversed(self._sessions))]

    def _list(self, params: Params) -> Json:
        return {"sessions": [{"sessionId": id, "cwd": session.cwd} for id, session in self._sessions.items()]}

    def _close(self, params: Params) -> Json:
        session = self._session(params)
        self._cancel(params)
        del self._sessions[session.id]
        self._tasks.start_soon(session.close)
        return {}

    def _session(self, params: Params) -> AcpSession:
        wanted = params.get("sessionId")
        session = self._sessions.get(wanted) if isinstance(wanted, str) else None
        if session is None:
            raise Refusal(INVALID_PARAMS, "there is no such session: session/new makes one")
        return session

    def _prompt(self, id: Id, params: Params) -> None:
        session = self._session(params)
        if session.id in self._prompting:
            raise Refusal(INVALID_REQUEST, "a prompt of this session is running: wait for it, or cancel it with session/cancel")
        self._running[id] = self._prompting[session.id] = anyio.CancelScope()
        self._tasks.start_soon(self._run, id, session, params.get("prompt"))

    async def _run(self, id: Id, session: AcpSession, prompt: Json) -> None:
        stop = "cancelled"
        with self._running[id]:
            try:
                await session.prompt(prompt)
                stop = "end_turn"
            except Exception as problem:
                whisper(f"bug in session/prompt: {problem!r}")
                self.link.fail(id, INTERNAL_ERROR, f"abp-bridge has a bug: {type(problem).__name__}. Please report it.")
        del self._running[id], self._prompting[session.id]
        if self.link.is_open(id):
            self.link.respond(id, {"stopReason": stop})

    def _cancel(self, params: Params) -> None:
        wanted = params.get("sessionId")
        scope = self._prompting.get(wanted) if isinstance(wanted, str) else None
        if scope is not None:
            scope.cancel()

    def _cancel_request(self, params: Params) -> None:
        id = params.get("requestId")
        scope = self._running.get(id) if isinstance(id, (str, int, float)) else None
        if scope is not None:
            scope.cancel()


_METHODS: dict[str, Callable[[AcpServer, Params], Json]] = {
    "initialize": AcpServer._initialize,
    "session/new": AcpServer._new,
    "session/list": AcpServer._list,
    "session/close": AcpServer._close,
}

_NOTIFICATIONS: dict[str, Callable[[AcpServer, Params], None]] = {
    "session/cancel": AcpServer._cancel,
    "$/cancel_request": AcpServer._cancel_request,
}
