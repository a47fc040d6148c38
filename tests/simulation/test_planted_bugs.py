"""The simulation finds bugs that are planted, each with its seed."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any
from unittest.mock import patch

import anyio.lowlevel
import pytest

from abp_bridge.acp.client_surfaces import ClientSurfaces
from abp_bridge.acp.proxy.mcp_endpoint import McpEndpoint
from abp_bridge.conformance.redactor import SecretAnswers
from abp_bridge.core.outcome import AnsweredBy, Outcome, Verdict
from abp_bridge.jsonrpc import byte_edit, splice
from abp_bridge.jsonrpc.connection import JsonRpcConnection
from abp_bridge.jsonrpc.protocol import IncomingMessage, Response
from abp_bridge.mcp.pending_call import PendingCall
from abp_bridge.mcp.proxy.modern_host import ModernHost
from abp_bridge.mcp.proxy.server_questions import ServerQuestions
from abp_bridge.protocols.acp import v1
from abp_bridge.protocols.acp.v1 import ChatReply, Meaning
from abp_bridge.protocols.mcp import server_elicitation
from abp_bridge.session import approval, router
from abp_bridge.session.result_store import ResultStore
from abp_bridge.session.surface import SurfaceResponse
from abp_bridge.surfaces import opencode

from .test_simulation import run
from .world import Report

Json = Any

SERVERS = r"^the server's question .*"
ENOUGH = 300  # seeds in which a planted bug has to show


_respond = JsonRpcConnection.respond
_enqueue = JsonRpcConnection._enqueue
_dispatch = JsonRpcConnection._dispatch
_ask = PendingCall.wait_for_round
_save = ResultStore.save
_answer = ServerQuestions._send_answer
_handle = ServerQuestions._handle
_keep_lines = splice.keep_lines
_on_server_notification = ModernHost._on_server_notification
_decode_reply = v1.decode_reply
_encode_answer = server_elicitation.encode_answer


def _lose_an_answer(self: JsonRpcConnection, id: Json, result: Json, *more: Json) -> None:
    """What is answered while two requests of ours wait goes nowhere."""
    if len(self._waiting) == 2 and "metadata" in result:
        self.discard_request(id)
    else:
        _respond(self, id, result, *more)


def _answer_twice(self: JsonRpcConnection, key: Json, data: bytes, **how: Json) -> None:
    """A response that does not leave at once leaves again."""
    _enqueue(self, key, data, **how)
    if self._tail and key[0] == "response":
        _enqueue(self, self._new_key("response"), data, **how)


def _swap_answers(self: JsonRpcConnection, event: IncomingMessage) -> None:
    """A response goes to whoever waits longest."""
    if isinstance(event, Response) and event.error is None:
        longest: Json = next(iter(self._waiting))
        event = Response(longest, event.result, None)
    _dispatch(self, event)


async def _race(self: PendingCall, *args: Json) -> Json:
    """Two questions that are asked in one turn get one number."""
    asked = self.input_requests
    await anyio.lowlevel.checkpoint()
    self.input_requests = asked
    return await _ask(self, *args)


def _take_commands(prompt: Json) -> ChatReply:
    """Whatever is typed while a question is open answers it."""
    reply = _decode_reply(prompt)
    return ChatReply(Meaning.ANSWER, reply.text) if reply.meaning is Meaning.COMMAND else reply


async def _nothing(self: McpEndpoint) -> None: ...


def _lose_a_servers_answer(self: ServerQuestions, id: Json, result: Json) -> None:
    """What is answered while another question is open goes nowhere."""
    if not self.is_asking:
        _answer(self, id, result)


def _answer_a_server_twice(self: ServerQuestions, id: Json, result: Json) -> None:
    for _ in range(2):
        _answer(self, id, result)


async def _race_at_a_proxy(self: ServerQuestions, id: Json, *args: Json) -> None:
    """Two questions of a server's that come in one turn are taken for the later one."""
    self.__dict__["newest"] = id
    await anyio.lowlevel.checkpoint()
    await _handle(self, self.__dict__["newest"], *args)


def _drop_a_log(block: bytes) -> bytes:
    """Of many lines at once, what a server logs is left out."""
    lines = _keep_lines(block).splitlines(keepends=True)
    kept = [each for each in lines if len(lines) == 1 or b"notifications/message" not in each]
    return b"".join(kept)


def _drop_a_log_between_eras(self: ModernHost, method: str, params: Json) -> None:
    """What a server logs twice with one level is told once."""
    levels = self.__dict__.setdefault("heard", set())
    if method != "notifications/message" or params["level"] not in levels:
        _on_server_notification(self, method, params)
    levels.add(params.get("level"))


def _invent_an_accept(question: Json, answer: Json) -> Json:
    """Whoever is not there agrees."""
    content = {each.name: True for each in question.fields}
    found = _encode_answer(question, answer)
    return found if found["action"] != "cancel" else {"action": "accept", "content": content}


def _cut_an_accept(question: Json, answer: Json) -> Json:
    """The last field is left out."""
    found: Json = _encode_answer(question, answer)
    return {**found, "content": dict(list(found.get("content", {}).items())[:1])}


async def _tear(self: ResultStore, *args: Json) -> Json:
    """What there was room for stays."""
    try:
        return await _save(self, *args)
    except OSError:
        with suppress(OSError), open(f"{await self._opened()}/half.png", "wb") as file:
            file.write(args[1])
        raise


def _plant(owner: object, name: str, bug: object) -> Callable[[], AbstractContextManager[object]]:
    return lambda: patch.object(owner, name, bug)


PLANTED: dict[str, tuple[Callable[[], AbstractContextManager[object]], str]] = {
    "a lost answer": (_plant(JsonRpcConnection, "respond", _lose_an_answer), "has no answer"),
    "a doubled answer": (_plant(JsonRpcConnection, "_enqueue", _answer_twice), "has 2 answers"),
    "a swapped answer": (_plant(JsonRpcConnection, "_dispatch", _swap_answers), "nobody gave"),
    "a race": (_plant(PendingCall, "wait_for_round", _race), "the person would have answered"),
    "an uncounted loss": (
        _plant(JsonRpcConnection, "lost_notifications", lambda self, **replaced: {}),
        "counted as lost",
    ),
    "a policy taken for a person": (
        _plant(router, "judge", lambda at: Verdict(AnsweredBy.PERSON, "reading-time")),
        "is a person's, and a policy gave it",
    ),
    "a person taken for a policy": (
        _plant(router, "reading_time", lambda question, shortest: 12.0),
        "is a policy's, and a person gave it",
    ),
    "a policy that confirms": (
        _plant(router, "needs_proof", lambda question, outcome, content: False),
        "no person confirmed it",
    ),
    "a call without permission": (
        _plant(approval, "needs_approval", lambda capability, chosen: False),
        "no person allowed it",
    ),
    "an error taken for an answer": (
        _plant(
            ClientSurfaces,
            "_without_outcome",
            lambda self, variant, error: SurfaceResponse(Outcome.DECLINED, seconds=9.0),
        ),
        "nobody gave",
    ),
    "a command taken for an answer": (
        _plant(v1, "decode_reply", _take_commands),
        "has an answer that nobody gave",
    ),
    "labels that are mixed up": (
        _plant(opencode, "decode_answers", lambda question, body: {question.fields[0].name: "!"}),
        "the person would have answered",
    ),
    "apps that a proxy forgets": (_plant(McpEndpoint, "close", _nothing), "has no answer"),
    "a server's lost answer": (
        _plant(ServerQuestions, "_send_answer", _lose_a_servers_answer),
        SERVERS + " has no answer",
    ),
    "a server's doubled answer": (
        _plant(ServerQuestions, "_send_answer", _answer_a_server_twice),
        SERVERS + " has 2 answers",
    ),
    "a race at a proxy": (
        _plant(ServerQuestions, "_handle", _race_at_a_proxy),
        SERVERS + " has no answer",
    ),
    "a race between eras": (
        _plant(PendingCall, "wait_for_round", _race),
        SERVERS + " the person would have answered",
    ),
    "an uncounted loss at a proxy": (
        _plant(splice, "keep_lines", _drop_a_log),
        "a message does not come",
    ),
    "an uncounted loss between eras": (
        _plant(ModernHost, "_on_server_notification", _drop_a_log_between_eras),
        "a message does not come",
    ),
    "an accept that a proxy invents": (
        _plant(server_elicitation, "encode_answer", _invent_an_accept),
        SERVERS + " has an answer that nobody gave",
    ),
    "an accept that a proxy cuts": (
        _plant(server_elicitation, "encode_answer", _cut_an_accept),
        SERVERS + " has an answer that nobody gave",
    ),
    "a result that a proxy changes": (
        _plant(byte_edit, "append_item", lambda line, *more: line.replace(b"is done", b"failed")),
        "a result is not the server's",
    ),
    "a torn file": (_plant(ResultStore, "save", _tear), "is torn"),
    "a secret written down": (
        _plant(SecretAnswers, "without_secrets", lambda self, entry: entry.value),
        "a secret is in the recording",
    ),
}


# Seeds that showed a bug when it was last looked for: they are tried first, to be quick.
SHOWN = {
    "a lost answer": 36,
    "a doubled answer": 16,
    "a swapped answer": 10,
    "a race": 46,
    "an uncounted loss": 52,
    "a policy that confirms": 25,
    "a command taken for an answer": 178,
    "an error taken for an answer": 37,
    "labels that are mixed up": 60,
    "apps that a proxy forgets": 214,
    "a server's lost answer": 19,
    "a server's doubled answer": 19,
    "a race at a proxy": 19,
    "a race between eras": 59,
    "an uncounted loss at a proxy": 19,
    "an uncounted loss between eras": 59,
    "an accept that a proxy invents": 23,
    "an accept that a proxy cuts": 19,
    "a result that a proxy changes": 23,
    "a torn file": 8,
    "a secret written down": 17,
}


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug: str) -> None:
    plant, words = PLANTED[bug]
    with plant():
        seeds = [SHOWN.get(bug, 0), *range(ENOUGH)]
        found = next((seed for seed in seeds if _shows(run(seed), words)), None)
    assert found is not None, f"{ENOUGH} seeds do not show {bug}"
    assert not _shows(run(found), words), f"seed {found} shows {bug} without it"


def _shows(report: Report, words: str) -> bool:
    return any(re.search(words, each) for each in report.problems)
