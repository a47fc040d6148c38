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
from abp_bridge.core.json_value import JsonObject, JsonValue, as_object, is_deeper
from abp_bridge.core.question import Kind
from abp_bridge.errors import RemoteProtocolError, describe_bug
from abp_bridge.jsonrpc.protocol import MAX_DEPTH, Id, Request, is_id
from abp_bridge.protocols.acp import v1 as acp
from abp_bridge.protocols.host_words import encode_account
from abp_bridge.protocols.mcp.server_elicitation import decode_question, encode_answer
from abp_bridge.session.context import NO_CONTEXT

if TYPE_CHECKING:
    from abp_bridge.acp.proxy.sessions import SessionTable
    from abp_bridge.jsonrpc.connection import JsonRpcConnection
    from abp_bridge.session.host import HostSurfaces
    from abp_bridge.session.surface import ElicitorApi

logger = logging.getLogger(__name__)

MAX_OPEN = 100  # questions of the agent's own at once: each holds a task and a card

ELICIT = "elicitation/create"
_CLIENT_LEFT = "its client has left"


class AgentQuestions:
    """The questions of one agent, each answered exactly once.

    Args:
        agent: The agent's connection.
        sessions: The session table.
        make_elicitor: Makes what puts the questions of one session.
        agent_name: The agent's name until it gives one.

    Attributes:
        shown: The modes of questions that the client shows itself; None for all.
    """

    def __init__(
        self,
        agent: JsonRpcConnection,
        sessions: SessionTable,
        make_elicitor: Callable[[HostSurfaces], ElicitorApi],
        agent_name: str,
    ) -> None:
        self.agent_name = agent_name
        self._agent = agent
        self._sessions = sessions
        self._make_elicitor = make_elicitor
        self.shown: Sequence[str] | None = None
        self._open: dict[Id, anyio.CancelScope] = {}
        self._serial = 0
        self._ended = False

    def are_ours(self, params: JsonObject) -> bool:
        """Whether a question is ours to answer."""
        return self.shown is not None and params.get("mode") not in self.shown

    async def answer(self, request: Request) -> None:
        """Ask, and answer the agent."""
        id, params = request.id, as_object(request.params)
        if obstacle := self._find_obstacle(params):
            self._agent.respond(id, _encode_cancelled(obstacle))
            return
        result: JsonObject = {}
        scope = self._open[id] = anyio.CancelScope()
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
        if scope.cancelled_caught:
            self._agent.respond_error(id, acp.REQUEST_CANCELLED, "the question was cancelled")
        else:
            self._agent.respond(id, result)

    def cancel(self, id: JsonValue) -> bool:
        """Take down the question with this id, and return whether it is one of ours."""
        scope = self._open.get(id) if is_id(id) else None
        if scope is not None:
            scope.cancel()
        return scope is not None

    def end(self) -> None:
        """Cancel all open questions at once."""
        self._ended = True
        questions, self._open = self._open, {}
        for id, scope in questions.items():
            scope.cancel()
            self._agent.respond(id, _encode_cancelled(_CLIENT_LEFT))

    def _find_obstacle(self, params: JsonObject) -> str:
        if self._ended:
            return _CLIENT_LEFT
        if is_deeper(params, MAX_DEPTH - 1):
            return "it is nested too deeply"
        if len(self._open) >= MAX_OPEN:
            return f"{MAX_OPEN} questions of this agent are open already"
        if (mode := params.get("mode", "form")) != "form":
            return "the client shows no addresses" if mode == "url" else "its mode is unknown"
        return ""

    async def _resolve(self, params: JsonObject) -> JsonObject:
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
