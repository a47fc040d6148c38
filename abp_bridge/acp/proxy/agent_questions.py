"""The agent's own questions that its client cannot show: the proxy asks them by permissions.

A server behind the agent may treat an error as "no user available": so a question without an answer
gets `cancel`, also when the client leaves. Apps' questions go by `mcp_endpoint`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import anyio

from abp_bridge.acp.turns import OUTSIDE
from abp_bridge.core.json_value import JsonObject, as_object, is_deeper
from abp_bridge.core.question import Kind
from abp_bridge.errors import RemoteProtocolError, describe_bug
from abp_bridge.jsonrpc.multiplex import InjectedConnection, SharedWriter
from abp_bridge.jsonrpc.protocol import (
    MAX_DEPTH,
    Id,
    JsonRpcProtocol,
    Notification,
    Request,
    dump,
    is_id,
)
from abp_bridge.protocols.acp import v1 as acp
from abp_bridge.protocols.host_words import encode_account
from abp_bridge.protocols.mcp.server_elicitation import decode_question, encode_answer
from abp_bridge.session.context import NO_CONTEXT

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from abp_bridge.acp.proxy.sessions import SessionTable
    from abp_bridge.session.host import HostSurfaces
    from abp_bridge.session.surface import ElicitorApi

logger = logging.getLogger(__name__)

MAX_OPEN = 100  # questions of the agent's own at once: each holds a task and a card

ELICIT = "elicitation/create"
_CLIENT_LEFT = "its client has left"
_TOO_DEEP = "it is nested too deeply"


class AgentQuestions:
    """The questions of one agent, each answered exactly once.

    Args:
        protocol: The state of our connection to the agent.
        writer: The agent's input, shared with the lines that pass.
        sessions: The session table.
        make_elicitor: Makes what puts the questions of one session.
        tasks: Runs each question; must outlive this.
        agent_name: The agent's name until it gives one.
    """

    def __init__(
        self,
        protocol: JsonRpcProtocol,
        writer: SharedWriter,
        *,
        sessions: SessionTable,
        make_elicitor: Callable[[HostSurfaces], ElicitorApi],
        tasks: TaskGroup,
        agent_name: str,
    ) -> None:
        self.agent_name = agent_name
        self.modes: Sequence[str] = ()  # of elicitation, that are ours to ask
        self._writer = writer
        self._injected = InjectedConnection(protocol, writer, on_message=self._on_message)
        self._sessions = sessions
        self._make_elicitor = make_elicitor
        self._tasks = tasks
        self._open: dict[Id, anyio.CancelScope] = {}
        self._serial = 0
        self._ended = False

    async def run(self) -> None:
        """Take questions and write answers until cancelled."""
        await self._injected.connection.run()

    def is_relevant(self, data: bytes) -> bool:
        """Whether one of these lines may be a question that is ours to ask, or take one back."""
        return bool(self.modes) and (
            b'"elicitation' in data or (bool(self._open) and b"cancel_request" in data)
        )

    async def take_question(self, message: JsonObject) -> bool:
        """Ask this `elicitation/create`, and return whether it was taken.

        The client shows forms itself, if it can, and refuses unknown modes.
        """
        id, params = message.get("id"), as_object(message.get("params"))
        if not is_id(id) or params.get("mode", "form") not in self.modes:
            return False
        too_deep = is_deeper(params, MAX_DEPTH - 1)
        if len(self._open) < MAX_OPEN and not self._ended and not too_deep:
            self._open.setdefault(id, anyio.CancelScope())
        fed = None if too_deep else params  # which our connection would not read
        await self._injected.feed({"id": id, "method": ELICIT, "params": fed})
        return True

    async def take_cancel(self, message: JsonObject) -> bool:
        """Take down the question that this `$/cancel_request` names: whether it was one of ours."""
        params = as_object(message.get("params"))
        if "id" in message or not is_id(id := params.get("requestId")) or id not in self._open:
            return False
        await self._injected.feed({"method": acp.CANCEL_REQUEST, "params": params})
        return True

    def end(self) -> None:
        """Cancel all open questions at once."""
        self._ended = True
        for id, scope in self._open.items():
            scope.cancel()
            result = _encode_cancelled(_CLIENT_LEFT)
            self._writer.write_last(dump({"jsonrpc": "2.0", "id": id, "result": result}))
        self._open.clear()

    def _on_message(self, message: Request | Notification) -> None:
        params = as_object(message.params)
        if isinstance(message, Notification):
            id = params.get("requestId")
            if is_id(id) and (scope := self._open.get(id)) is not None:
                scope.cancel()  # else it has been answered meanwhile
        elif (scope := self._open.get(message.id)) is not None:
            self._tasks.start_soon(self._answer, message.id, params, scope)
        else:
            too_many = f"{MAX_OPEN} questions of this agent are open already"
            refused = _TOO_DEEP if message.params is None else too_many
            reason = _CLIENT_LEFT if self._ended else refused
            self._injected.connection.respond(message.id, _encode_cancelled(reason))

    async def _answer(self, id: Id, params: JsonObject, scope: anyio.CancelScope) -> None:
        result: JsonObject = {}
        with scope:
            try:
                result = await self._resolve(params)
            except RemoteProtocolError as problem:
                result = _encode_cancelled(str(problem))
            except Exception as problem:
                logger.exception("request %.100r (%r) failed", id, ELICIT)
                result = _encode_cancelled(describe_bug(problem))
        if self._open.get(id) is not scope:  # all has ended
            return
        del self._open[id]
        connection = self._injected.connection
        if scope.cancelled_caught:
            connection.respond_error(id, acp.REQUEST_CANCELLED, "the question was cancelled")
        else:
            connection.respond(id, result)

    async def _resolve(self, params: JsonObject) -> JsonObject:
        if params.get("mode") == "url":
            return _encode_cancelled("the client shows no addresses")
        session = self._sessions.find_asked(params)
        if session is None:
            return _encode_cancelled(OUTSIDE)
        self._serial += 1
        id = f"own-{self._serial}"
        question = decode_question(params, id=id, origin=self.agent_name, destructive=False)
        if question.kind is Kind.CONFIRM:  # often of a server behind the agent, before it destroys
            question = replace(question, destructive=True)
        session.elicitor = session.elicitor or self._make_elicitor(session.surfaces)
        answer = await session.elicitor.resolve(question, NO_CONTEXT)
        account = encode_account(
            answer.answerer,
            route=answer.route,
            reason=answer.reason,
            notAsked=answer.metadata.get("notAsked"),
            notChangeable=answer.metadata.get("notChangeable"),
        )
        return encode_answer(question, answer) | account


def _encode_cancelled(reason: str) -> JsonObject:
    return {"action": "cancel", **encode_account(None, reason=reason)}
