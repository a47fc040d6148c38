"""The simulation finds bugs that are planted, each with its seed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any
from unittest.mock import patch

import anyio
import anyio.lowlevel
import pytest

from abp_bridge.acp.client_surfaces import ClientSurfaces
from abp_bridge.acp.proxy.mcp_endpoint import McpEndpoint
from abp_bridge.conformance.redactor import SecretAnswers
from abp_bridge.core.outcome import AnsweredBy, Outcome, Verdict
from abp_bridge.jsonrpc.connection import JsonRpcConnection
from abp_bridge.jsonrpc.protocol import IncomingMessage, Response
from abp_bridge.mcp.pending_call import PendingCall
from abp_bridge.mcp.proxy.proxy import Proxy
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
_ask_question = ServerQuestions.ask
_forward_notification = JsonRpcConnection.forward_notification
_edit_result = Proxy._edit_result
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


async def _lose_a_servers_answer(self: ServerQuestions, *asked: Json) -> Json:
    """What is answered while another question is open goes nowhere."""
    answer = await _ask_question(self, *asked)
    if self._open:
        await anyio.sleep_forever()
    return answer


def _drop_a_log(self: JsonRpcConnection, method: str, params: Json) -> None:
    """What a server logs twice with one level is told once."""
    levels = self.__dict__.setdefault("heard", set())
    if method != "notifications/message" or params["level"] not in levels:
        _forward_notification(self, method, params)
    levels.add((params or {}).get("level"))


def _change_a_result(self: Proxy, *given: Json) -> Json:
    return json.loads(json.dumps(_edit_result(self, *given)).replace("is done", "failed"))


def _invent_an_accept(question: Json, answer: Json) -> Json:
    content = {each.name: True for each in question.fields}
    found = _encode_answer(question, answer)
    return found if found["action"] != "cancel" else {"action": "accept", "content": content}


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


# what is wrong -> how it is planted, what the simulation says, a seed that shows it
PLANTED: dict[str, tuple[Callable[[], AbstractContextManager[object]], str, int]] = {
    "a lost answer": (_plant(JsonRpcConnection, "respond", _lose_an_answer), "has no answer", 114),
    "a doubled answer": (_plant(JsonRpcConnection, "_enqueue", _answer_twice), "has 2 answers", 90),
    "a swapped answer": (_plant(JsonRpcConnection, "_dispatch", _swap_answers), "nobody gave", 77),
    "a race": (_plant(PendingCall, "wait_for_round", _race), "the person would have answered", 46),
    "an uncounted loss": (
        _plant(JsonRpcConnection, "lost_notifications", lambda self, **replaced: {}),
        "counted as lost",
        85,
    ),
    "a policy taken for a person": (
        _plant(router, "judge", lambda at: Verdict(AnsweredBy.PERSON, "reading-time")),
        "is a person's, and a policy gave it",
        36,
    ),
    "a person taken for a policy": (
        _plant(router, "reading_time", lambda question, shortest: 12.0),
        "is a policy's, and a person gave it",
        44,
    ),
    "a policy that confirms": (
        _plant(router, "needs_proof", lambda question, outcome, content: False),
        "no person confirmed it",
        25,
    ),
    "a call without permission": (
        _plant(approval, "needs_approval", lambda capability, chosen: False),
        "no person allowed it",
        15,
    ),
    "an error taken for an answer": (
        _plant(
            ClientSurfaces,
            "_without_outcome",
            lambda self, variant, error: SurfaceResponse(Outcome.DECLINED, seconds=9.0),
        ),
        "nobody gave",
        37,
    ),
    "a command taken for an answer": (
        _plant(v1, "decode_reply", _take_commands),
        "has an answer that nobody gave",
        178,
    ),
    "labels that are mixed up": (
        _plant(opencode, "decode_answers", lambda question, body: {question.fields[0].name: "!"}),
        "the person would have answered",
        60,
    ),
    "apps that a proxy forgets": (_plant(McpEndpoint, "close", _nothing), "has no answer", 214),
    "a server's lost answer": (
        _plant(ServerQuestions, "ask", _lose_a_servers_answer),
        SERVERS + " has no answer",
        19,
    ),
    "an uncounted loss at a proxy": (
        _plant(JsonRpcConnection, "forward_notification", _drop_a_log),
        "a message does not come",
        19,
    ),
    "an accept that a proxy invents": (
        _plant(server_elicitation, "encode_answer", _invent_an_accept),
        SERVERS + " has an answer that nobody gave",
        47,
    ),
    "a result that a proxy changes": (
        _plant(Proxy, "_edit_result", _change_a_result),
        "a result is not the server's",
        87,
    ),
    "a torn file": (_plant(ResultStore, "save", _tear), "is torn", 44),
    "a secret written down": (
        _plant(SecretAnswers, "without_secrets", lambda self, entry: entry.value),
        "a secret is in the recording",
        17,
    ),
}


@pytest.mark.parametrize("bug", PLANTED)
@pytest.mark.slow
def test_planted_bug_is_found(bug: str) -> None:
    plant, words, seed = PLANTED[bug]
    with plant():
        found = next((each for each in (seed, *range(ENOUGH)) if _shows(run(each), words)), None)
    assert found is not None, f"{ENOUGH} seeds do not show {bug}"
    assert not _shows(run(found), words), f"seed {found} shows {bug} without it"


def _shows(report: Report, words: str) -> bool:
    return any(re.search(words, each) for each in report.problems)
