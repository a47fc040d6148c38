"""The front of an ABP agent's connection: one session, from `initialize` to `shutdown`."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from abp_bridge.core.capability import Failure
from abp_bridge.core.json_value import JsonObject, JsonValue, as_object
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.jsonrpc.connection import respond_internal_error
from abp_bridge.jsonrpc.protocol import METHOD_NOT_FOUND, Id, Notification, Request
from abp_bridge.protocols.abp.agent import AgentInfo, decode_agent, encode_failure
from abp_bridge.session.host import SessionError

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from abp_bridge.abp.session import AbpSession
    from abp_bridge.jsonrpc.connection import JsonRpcConnection


MAX_OPEN = 100  # calls of an agent's at once: each holds a task, and may hold a question


class AbpServer:
    """One connection.

    Args:
        connection: The agent's connection.
        make_session: Makes the session of an agent.
        tasks: Runs what takes time; outlives the connection.
    """

    def __init__(
        self,
        connection: JsonRpcConnection,
        make_session: Callable[[AgentInfo], AbpSession],
        tasks: TaskGroup,
    ) -> None:
        self._connection = connection
        self._make_session = make_session
        self._tasks = tasks
        self._session: AbpSession | None = None
        self._serial = 0
        self._open = 0  # calls that are not answered yet, and `initialize`

    def on_message(self, message: Request | Notification) -> None:
        """Take one message. Never waits: what takes time runs as a task."""
        id = message.id if isinstance(message, Request) else None
        if message.method in _LASTING and self._open >= MAX_OPEN:
            if id is not None:
                words = f"{MAX_OPEN} calls are open: wait for one, or cancel one."
                failure = encode_failure(Failure("RATE_LIMITED", words, retryable=True))
                self._connection.respond(id, {"success": False, "error": failure})
        elif message.method in _METHODS:
            self._open += 1 if message.method in _LASTING else 0
            params = as_object(message.params)
            self._tasks.start_soon(self._answer, id, message.method, params)
        elif id is not None:
            words = f"ABP has no method {message.method[:100]!r}"
            self._connection.respond_error(id, METHOD_NOT_FOUND, words)

    async def _answer(self, id: Id | None, method: str, params: JsonObject) -> None:
        """Run a request, and answer it."""
        result: JsonValue
        try:
            result = await _METHODS[method](self, str(id), params)
        except (RemoteProtocolError, SessionError) as problem:
            failure = Failure(problem.code, str(problem))
            result = {"success": False, "error": encode_failure(failure)}
        except Exception:  # a bug of ours, logged there: the agent gets its answer all the same
            respond_internal_error(self._connection, id, method)
            return
        finally:
            self._open -= 1 if method in _LASTING else 0
        if id is not None and self._connection.is_open(id):
            self._connection.respond(id, result)

    async def _initialize(self, id: str, params: JsonObject) -> JsonValue:
        if self._session is not None:
            raise SessionError("ALREADY_INITIALIZED", "This session has begun.")
        self._session = self._make_session(decode_agent(params))
        self._serial += 1
        try:
            return await self._session.open(f"abp-session-{os.getpid()}-{self._serial}")
        except SessionError:
            self._session = None
            raise

    async def _list(self, id: str, params: JsonObject) -> JsonValue:
        return self._find_session().list()

    async def _call(self, id: str, params: JsonObject) -> JsonValue:
        return await self._find_session().call(id, params)

    async def _cancel(self, id: str, params: JsonObject) -> JsonValue:
        return self._find_session().cancel(params)

    async def _shut_down(self, id: str, params: JsonObject) -> JsonValue:
        session, self._session = self._find_session(), None
        await session.close()
        return {}

    def _find_session(self) -> AbpSession:
        if self._session is None:
            raise SessionError("NOT_INITIALIZED", "There is no session: begin with initialize.")
        return self._session


_METHODS: dict[str, Callable[[AbpServer, str, JsonObject], Awaitable[JsonValue]]] = {
    "initialize": AbpServer._initialize,
    "capabilities/list": AbpServer._list,
    "capabilities/call": AbpServer._call,
    "capabilities/cancel": AbpServer._cancel,
    "shutdown": AbpServer._shut_down,
}
# What may wait for a person, or for an app. The others end that, or take no time.
_LASTING = frozenset({"initialize", "capabilities/call"})
