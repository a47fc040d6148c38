"""Any JSON of an app or a host is decoded or a RemoteProtocolError; any decoded question can be
asked and answered.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from fuzz.targets import CODECS
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
from abp_bridge.core.matrix import SurfaceVariant
from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.core.question import Kind, Question
from abp_bridge.core.surface import Surface
from abp_bridge.errors import LocalProtocolError, RemoteProtocolError
from abp_bridge.protocols import abp, opencode
from abp_bridge.protocols.mcp.elicitation import (
    decode_reply,
    encode_form,
    encode_sampling,
)
from abp_bridge.protocols.mcp.revisions import InvalidParamsError

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


@few
@given(anything)
def test_any_json_is_decoded_or_an_error(raw: Json) -> None:
    for decode in CODECS:
        note(repr(decode))
        with contextlib.suppress(RemoteProtocolError, LocalProtocolError, InvalidParamsError):
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
