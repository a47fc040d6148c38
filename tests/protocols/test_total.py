"""Any JSON of an app or a host is decoded or a RemoteProtocolError; any decoded question can be
asked and answered.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, note
from protocols.test_referee import check_form
from support.json_strategies import (
    SCHEMA_VALUES,
    SCHEMA_WORDS,
    broken_schemas,
    few,
    garbled,
    json_values,
    shaped,
)
from support.paths import ROOT, TESTS
from support.question_strategies import requests

from abp_bridge.core import matrix, schema
from abp_bridge.core.answer import Answer, validate_answer
from abp_bridge.core.json_value import as_list, as_object
from abp_bridge.core.ledger import Notice, describe_notice, next_progress
from abp_bridge.core.matrix import SurfaceVariant
from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.core.question import Kind, Question
from abp_bridge.core.surface import Surface
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.models import acp
from abp_bridge.models.agent import AgentError
from abp_bridge.protocols import abp, opencode
from abp_bridge.protocols.abp.envelope import from_envelope
from abp_bridge.protocols.acp import agent, v1
from abp_bridge.protocols.mcp import sampling, server, server_elicitation
from abp_bridge.protocols.mcp.client import decode_capabilities
from abp_bridge.protocols.mcp.elicitation import (
    decode_reply,
    decode_sampled,
    encode_form,
    encode_sampling,
)
from abp_bridge.protocols.mcp.results import encode_result
from abp_bridge.protocols.mcp.tools import encode_tool, tool_name

Json = Any

WORDS = """
method params event data success error code message retryable retryAfter alternatives cancelled
metadata app id name version protocolVersion sessionId capabilities inputSchema description
deprecated deprecationMessage available added removed changed operationId progressToken progress
total percentage status stage estimatedRemaining field newValue action content text
sessionUpdate toolCall toolCallId title kind options optionId entries rawInput locations
stopReason
"""
ABP_WORDS = WORDS.split()
EVENTS = ("notifications/error", "state/changed", "capabilities/list_changed", "TIMEOUT")
ABP_VALUES: Sequence[Json] = (*EVENTS, "accept", "decline", True, None, 0, 1, 50, -1, "1", [], {})
spoken = garbled(ABP_WORDS, ABP_VALUES)
anything = json_values | spoken | shaped(ABP_WORDS, spoken)

QUESTION = abp.decode_question(
    {
        "method": "elicitation/input",
        "params": {
            "schema": {
                "properties": {"content": {"type": "array", "items": {"enum": ["a", 1]}}, "id": {}}
            }
        },
    },
    id="q",
    origin="o",
)


def _play_turn(raw: Json) -> object:
    """Decode an update of each kind, and the result of the prompt."""
    turn = agent.TurnDecoder("c")
    for kind in (as_object(raw).get("sessionUpdate"), *agent.UPDATES):
        for told in turn.add({**as_object(raw), "sessionUpdate": kind}):
            if isinstance(told, Notice):
                describe_notice(told)
    return encode_result(turn.result(as_object(raw)))


def _play_model(raw: Json) -> object:
    """Do the same for an agent that is a model."""
    turn = acp.ModelTurn(tools=False)
    for kind in (as_object(raw).get("sessionUpdate"), *agent.UPDATES):
        list(turn.apply_update({**as_object(raw), "sessionUpdate": kind}))
    with contextlib.suppress(AgentError):
        turn.finish({**as_object(raw), "stopReason": "end_turn"})
    acp.decode_mode(as_object(raw))
    return turn.refuse(as_object(raw))


DECODERS: dict[str, Callable[[Json], object]] = {
    "decode_question": lambda raw: abp.decode_question(raw, id="q", origin="o"),
    "decode_asker": abp.decode_asker,
    "decode_notice": lambda raw: describe_notice(abp.decode_notice(raw)),
    "decode_changes": abp.decode_changes,
    "decode_progress": lambda raw: [
        next_progress(progress, progress)
        for progress in [abp.decode_progress(raw)]
        if progress is not None
    ],
    "decode_result": lambda raw: encode_result(abp.decode_result(raw)),
    "decode_opened": abp.decode_app_info,
    "decode_capabilities": lambda raw: [
        encode_tool(tool_name(each.name), each, "o") for each in abp.decode_capabilities(raw)
    ],
    "the host's capabilities": lambda raw: decode_capabilities(raw, "2025-11-25"),
    "decode_reply": lambda raw: decode_reply(raw, QUESTION),
    "decode_sampled": decode_sampled,
    "a server's sampling": lambda raw: sampling.decode_sampling(raw, id="q", origin="o"),
    "a server's model": sampling.decode_whole,
    "a server's tools": lambda raw: [
        encode_tool(tool_name(each.name), each, "o")
        for each in server.decode_tools(as_list(raw), as_object(raw))
    ],
    "a server's result": lambda raw: encode_result(server.decode_result(raw)),
    "a server's contents": lambda raw: encode_result(server.decode_contents(raw)),
    "a server's prompt": lambda raw: encode_result(server.decode_prompt(raw)),
    "a server's error": lambda raw: server.decode_error(0, "x", raw),
    "a server's notice": lambda raw: describe_notice(server.decode_notice("x", as_object(raw))),
    "a server's list": lambda raw: server.decode_change("tools", as_list(raw), as_list(raw)),
    "an agent": lambda raw: [
        agent.decode_info(as_object(raw)),
        agent.decode_sign_in(as_object(raw), "o"),
    ],
    "an agent's commands": lambda raw: [
        encode_tool(tool_name(each.name), each, "o")
        for each in agent.decode_commands(agent.list_commands({"availableCommands": raw}))
    ],
    "an agent's updates": _play_turn,
    "a model's turn": _play_model,
    "an agent's permission": lambda raw: agent.decode_permission(
        as_object(raw), "t", id="q", origin="o"
    ),
    "a prompt": lambda raw: [v1.decode_reply(raw), v1.prompt_text(raw), v1.unread_blocks(raw)],
    "a client's capabilities": v1.decode_capabilities,
    "a client's permission": v1.decode_outcome,
    "an envelope": lambda raw: [
        from_envelope({"type": kind, **as_object(raw)})
        for kind in ("elicitation/request", "notification", "progress", "initialize-result", "x")
    ],
    "a server's form": lambda raw: server_elicitation.decode_form(raw, id="q", origin="o"),
    "validate": lambda raw: validate_answer(QUESTION, raw),
}


@few
@given(anything)
def test_any_json_is_decoded_or_an_error(raw: Json) -> None:
    for name, decode in DECODERS.items():
        note(name)
        with contextlib.suppress(RemoteProtocolError):
            decode(raw)


COLUMNS = [
    SurfaceVariant(Surface.MCP_FORM, version, plain)
    for version in ("2025-06-18", "2025-11-25")
    for plain in (False, True)
] + [SurfaceVariant(Surface.MCP_URL), SurfaceVariant(Surface.MCP_SAMPLING)]


def _all_the_way(question: Question, sent: Json) -> None:
    """Do all that the bridge does with a question, with any answer."""
    for attempt in matrix.candidate_attempts(question, COLUMNS):
        assert attempt.name
    assert matrix.refusals(question, COLUMNS)
    for version in ("2025-06-18", "2025-11-25"):
        for plain in (False, True):
            if question.kind not in (Kind.RESOURCE, Kind.SAMPLING):  # no form carries those
                made = encode_form(question, version, plain=plain)
                json.dumps(made, allow_nan=False)
                check_form(made, version, plain=plain)
    json.dumps(encode_sampling(question), allow_nan=False)
    content: Mapping[str, Json] = {}
    with contextlib.suppress(RemoteProtocolError):
        _, content = decode_reply({"action": "accept", "content": sent}, question)
    answer, problems = validate_answer(question, content)
    assert all(isinstance(problem, str) for problem in problems)
    for field in question.fields:
        schema.unsupported_keywords(field.schema)
    opencode.encode_request(question, "que_1", "ses_1")
    with contextlib.suppress(RemoteProtocolError):
        assert set(opencode.decode_answers(question, sent)) <= {
            each.name for each in question.fields
        }
    for outcome in set(Outcome) - ({Outcome.ACCEPTED} if problems else set()):
        ended = Answer(outcome, AnsweredBy.PERSON, answer if outcome is Outcome.ACCEPTED else {})
        json.dumps(abp.encode_answer(question, ended), allow_nan=False)


@few
@given(requests, json_values)
def test_any_request_is_asked_or_refused(request: Mapping[str, Json], sent: Json) -> None:
    try:
        question = abp.decode_question(request, id="q", origin="o")
    except RemoteProtocolError as problem:
        json.dumps(abp.encode_problem(problem))
    else:
        _all_the_way(question, sent)


properties = shaped(
    ["content", "id", "it", "it_1"], broken_schemas | garbled(SCHEMA_WORDS, SCHEMA_VALUES)
)
answers = shaped(["content", "id", "it", "it_1", "it_2"], json_values)


@few
@given(broken_schemas, properties, answers)
@pytest.mark.slow
def test_any_schema_is_asked(
    alone: Mapping[str, Json], several: Mapping[str, Json], sent: Json
) -> None:
    for params in (
        {"schema": alone},
        {"schema": {**alone, "type": "object", "properties": several}},
        {"schema": alone, "default": sent},
    ):
        method = "elicitation/preference" if "default" in params else "elicitation/input"
        _all_the_way(
            abp.decode_question({"method": method, "params": params}, id="q", origin="o"), sent
        )


# Codecs that others reach, or that take no more than a word or a number.
WITHIN = {"decode_link", "decode_form", "decode_fields", "decode_field"}
WITHIN |= {"decode_block", "decode_call_id", "decode_answered_by"}
PLAIN = {"decode_seconds", "decode_link_outcome", "to_envelope"}


def test_every_codec_is_fuzzed() -> None:
    """`make fuzz` feeds each codec."""
    fuzzed = (TESTS / "fuzz" / "targets.py").read_text()
    codecs = {
        name
        for path in (ROOT / "abp_bridge" / "protocols").rglob("*.py")
        for name in re.findall(r"^def ((?:decode|to|from)_\w+)", path.read_text(), re.MULTILINE)
    }
    unnamed = {each for each in codecs if re.search(rf"\b{each}\b", fuzzed) is None}
    assert unnamed == WITHIN | PLAIN
